package impact;

import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.BytesTermAttribute;
import org.apache.lucene.analysis.tokenattributes.TermFrequencyAttribute;
import org.apache.lucene.util.BytesRef;

/** One row of a sparse matrix as tokens: a word once, with its weight as term frequency. */
final class WeightedTokens extends TokenStream {
  // The order matters: the first attribute to offer the term's bytes is the one Lucene reads.
  private final BytesTermAttribute term = addAttribute(BytesTermAttribute.class);
  private final TermFrequencyAttribute frequency = addAttribute(TermFrequencyAttribute.class);
  private final BytesRef[] words;
  private final int[] indices;
  private final int[] weights;
  private int next;
  private int end;

  WeightedTokens(BytesRef[] words, int[] indices, int[] weights) {
    this.words = words;
    this.indices = indices;
    this.weights = weights;
  }

  void setRange(int start, int end) {
    this.next = start;
    this.end = end;
  }

  @Override
  public boolean incrementToken() {
    if (next == end) {
      return false;
    }
    clearAttributes();
    term.setBytesRef(words[indices[next]]);
    frequency.setTermFrequency(weights[next]);
    next++;
    return true;
  }
}
