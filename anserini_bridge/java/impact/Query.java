package impact;

import java.io.IOException;

/** Finds the best documents of one query after another. Not thread-safe: each thread has its own. */
final class Query {
  private final BlockMax blockMax = new BlockMax();
  private final Exhaustive exhaustive = new Exhaustive();
  private Postings[] postings = {};
  private int[] boosts = {};

  /**
   * The k best documents for the query indices[start:end], weights[start:end].
   *
   * @param alpha see BlockMax
   * @param allowed the documents that may be found; null: all
   */
  TopK search(
      Snapshot snapshot,
      int[] indices,
      int[] weights,
      int start,
      int end,
      int k,
      double alpha,
      DocumentSet allowed)
      throws IOException {
    if (postings.length < end - start) {
      postings = new Postings[end - start];
      boosts = new int[end - start];
    }
    TopK best = new TopK(Math.min(k, snapshot.reader.numDocs()), snapshot);
    for (Segment segment : snapshot.segments) {
      long[] allowedHere = allowed == null ? null : allowed.of(segment);
      int count = 0;
      long bound = 0;
      for (int i = start; i < end; i++) {
        Postings term = segment.postings(indices[i]);
        if (term != Postings.NONE) {
          postings[count] = term;
          boosts[count++] = weights[i];
          bound += term.bound(weights[i]);
        }
      }
      if (bound <= Integer.MAX_VALUE) {
        blockMax.search(segment, postings, boosts, count, best, alpha, allowedHere);
      } else {
        exhaustive.search(segment, indices, weights, start, end, best, allowedHere);
      }
    }
    best.finish();
    return best;
  }
}
