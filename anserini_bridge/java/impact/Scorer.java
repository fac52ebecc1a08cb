package impact;

import java.io.IOException;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.BytesRef;

/**
 * Exact exhaustive search: sums query weight times document weight in long integers.
 *
 * <p>Documents are taken a window at a time, and inside a window term after term, so that the sums
 * stay in the processor's first cache. One scorer a thread.
 */
final class Scorer {
  private static final int WINDOW = 4096;

  private final DirectoryReader reader;
  private final BytesRef[] words;
  private final long[] sums = new long[WINDOW];

  Scorer(DirectoryReader reader, BytesRef[] words) {
    this.reader = reader;
    this.words = words;
  }

  /** The k best documents for the query that is indices[start:end] with weights[start:end]. */
  TopK search(int[] indices, int[] weights, int start, int end, int k) throws IOException {
    TopK best = new TopK(Math.min(k, reader.numDocs()));
    for (LeafReaderContext leaf : reader.leaves()) {
      Terms terms = leaf.reader().terms(Writer.CONTENTS);
      if (terms == null) {
        continue;
      }
      TermsEnum term = terms.iterator();
      PostingsEnum[] postings = new PostingsEnum[end - start];
      int[] boosts = new int[end - start];
      int count = 0;
      for (int i = start; i < end; i++) {
        if (term.seekExact(words[indices[i]])) {
          postings[count] = term.postings(null, PostingsEnum.FREQS);
          postings[count].nextDoc();
          boosts[count++] = weights[i];
        }
      }
      searchLeaf(postings, boosts, count, leaf, best);
    }
    return best;
  }

  private void searchLeaf(
      PostingsEnum[] postings, int[] boosts, int count, LeafReaderContext leaf, TopK best)
      throws IOException {
    Bits live = leaf.reader().getLiveDocs();
    int maxDoc = leaf.reader().maxDoc();
    for (int from = nearest(postings, count); from < maxDoc; from = nearest(postings, count)) {
      int to = Math.min(maxDoc, from + WINDOW);
      for (int i = 0; i < count; i++) {
        add(postings[i], boosts[i], from, to);
      }
      long threshold = best.threshold();
      for (int doc = from; doc < to; doc++) {
        long sum = sums[doc - from];
        sums[doc - from] = 0;
        if (sum > threshold && (live == null || live.get(doc))) {
          best.offer(sum, leaf.docBase + doc);
          threshold = best.threshold();
        }
      }
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
