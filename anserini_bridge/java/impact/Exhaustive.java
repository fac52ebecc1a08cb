package impact;

import java.io.IOException;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.TermsEnum;

/**
 * Exact search that sums every posting in long integers, for weights too large for BlockMax.
 *
 * <p>Documents are scored in windows, and inside a window term by term, so that the sums stay in the
 * processor's L1 cache. Not thread-safe: each thread has its own.
 */
final class Exhaustive {
  private static final int WINDOW = 4096;

  private final long[] sums = new long[WINDOW];

  /** Offers documents of a segment to the k best for a query. */
  void search(Part part, Queries queries, int row, TopK best) throws IOException {
    int terms = queries.end(row) - queries.start(row);
    PostingsEnum[] postings = new PostingsEnum[terms];
    int[] boosts = new int[terms];
    int count = 0;
    for (int i = queries.start(row); i < queries.end(row); i++) {
      TermsEnum term = part.segment.seek(queries.word(i));
      if (term != null) {
        postings[count] = term.postings(null, PostingsEnum.FREQS);
        postings[count].nextDoc();
        boosts[count++] = queries.weight(i);
      }
    }
    for (int from = nearest(postings, count); from < part.count; from = nearest(postings, count)) {
      int to = Math.min(part.count, from + WINDOW);
      for (int i = 0; i < count; i++) {
        add(postings[i], boosts[i], from, to);
      }
      for (int document = from; document < to; document++) {
        long sum = sums[document - from];
        sums[document - from] = 0;
        if (sum >= best.minimum() && part.allows(document)) {
          best.offer(sum, part.number(document));
        }
      }
      best.settle();
    }
  }

  private void add(PostingsEnum postings, long boost, int from, int to) throws IOException {
    int doc = postings.docID();
    while (doc < to) {
      sums[doc - from] += boost * postings.freq();
      doc = postings.nextDoc();
    }
  }

  private static int nearest(PostingsEnum[] postings, int count) {
    int doc = PostingsEnum.NO_MORE_DOCS;
    for (int i = 0; i < count; i++) {
      doc = Math.min(doc, postings[i].docID());
    }
    return doc;
  }
}
