package impact;

import java.io.IOException;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.BytesRef;

/** Reads a segment's documents back as rows. */
final class SegmentRows {
  /** Receives the rows. */
  interface Sink {
    void add(BytesRef id, long order, int[] terms, int[] weights, int from, int to) throws Exception;
  }

  private SegmentRows() {}

  /** Gives all live documents to the sink; reads as many at a time as fit into some bytes of memory. */
  static void read(LeafReader segment, BytesRef[] words, int[] sortedWords, long memory, Sink sink)
      throws Exception {
    BinaryDocValues ids = segment.getBinaryDocValues(Writer.ID);
    NumericDocValues orders = segment.getNumericDocValues(Writer.ORDER);
    Bits live = segment.getLiveDocs();
    Terms terms = segment.terms(Writer.CONTENTS);
    long postings = terms == null ? 0 : terms.getSumDocFreq();
    int step = (int) Math.max(1, memory / (16 + 8 * postings / segment.maxDoc()));
    for (int from = 0; from < segment.maxDoc(); from += step) {
      int to = (int) Math.min(segment.maxDoc(), (long) from + step);
      int[] ends = new int[to - from + 1]; // end of the row before
      scan(terms, words, sortedWords, from, to, (row, word, weight) -> ends[row + 1]++);
      for (int row = 0; row < to - from; row++) {
        ends[row + 1] += ends[row];
      }
      int[] rowTerms = new int[ends[to - from]];
      int[] rowWeights = new int[ends[to - from]];
      int[] next = ends.clone();
      scan(terms, words, sortedWords, from, to, (row, word, weight) -> {
        rowTerms[next[row]] = word;
        rowWeights[next[row]++] = weight;
      });
      for (int document = from; document < to; document++) {
        if (live == null || live.get(document)) {
          ids.advanceExact(document);
          orders.advanceExact(document);
          int row = document - from;
          sink.add(ids.binaryValue(), orders.longValue(), rowTerms, rowWeights, ends[row], ends[row + 1]);
        }
      }
    }
  }

  /** About as many bytes as a segment's documents take in Rows while they are written. */
  static long bytes(LeafReader segment) throws IOException {
    Terms terms = segment.terms(Writer.CONTENTS);
    return 8 * (terms == null ? 0 : terms.getSumDocFreq()) + 64L * segment.maxDoc();
  }

  private interface Posting {
    void take(int row, int word, int weight);
  }

  private static void scan(Terms terms, BytesRef[] words, int[] sortedWords, int from, int to,
      Posting posting) throws IOException {
    if (terms == null) {
      return;
    }
    TermsEnum term = terms.iterator();
    PostingsEnum postings = null;
    int word = 0;
    for (BytesRef bytes = term.next(); bytes != null; bytes = term.next()) {
      while (!words[sortedWords[word]].bytesEquals(bytes)) {
        word++;
      }
      postings = term.postings(postings, PostingsEnum.FREQS);
      for (int document = postings.advance(from); document < to; document = postings.nextDoc()) {
        posting.take(document - from, sortedWords[word], postings.freq());
      }
    }
  }
}
