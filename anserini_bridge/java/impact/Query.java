package impact;

import java.io.IOException;

/** Finds the best documents of one query after another. Not thread-safe: each thread has its own. */
final class Query {
  private final BlockMax blockMax = new BlockMax();
  private final Exhaustive exhaustive = new Exhaustive();
  private Postings[] postings = {};
  private int[] boosts = {};

  /**
   * The k best documents for the query in a row.
   *
   * @param alpha see BlockMax
   * @param allowed the documents that may be found; null: all
   */
  TopK search(Snapshot snapshot, Queries queries, int row, int k, double alpha, DocumentSet allowed)
      throws IOException {
    int start = queries.start(row);
    int end = queries.end(row);
    if (postings.length < end - start) {
      postings = new Postings[end - start];
      boosts = new int[end - start];
    }
    TopK best = new TopK(Math.min(k, snapshot.reader.numDocs()), snapshot);
    for (Documents documents : allowed == null ? snapshot.documents : allowed.documents) {
      int count = 0;
      long bound = 0;
      for (int i = start; i < end; i++) {
        Postings term = documents.postings(queries.word(i));
        if (term != Postings.NONE) {
          postings[count] = term;
          boosts[count++] = queries.weight(i);
          bound += term.bound(queries.weight(i));
        }
      }
      if (bound <= Integer.MAX_VALUE) {
        blockMax.search(documents, postings, boosts, count, best, alpha);
      } else {
        for (Part part : documents.parts()) {
          exhaustive.search(part, queries, row, best);
        }
      }
    }
    best.finish();
    return best;
  }
}
