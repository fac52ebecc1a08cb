package impact;

import java.util.function.IntBinaryOperator;
import java.util.function.IntFunction;
import org.apache.lucene.index.BaseTermsEnum;
import org.apache.lucene.index.ImpactsEnum;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.BytesRef;

/** A field's terms and postings in arrays, which Lucene reads once from first to last. */
final class MemoryTerms extends Terms {
  private final IntFunction<BytesRef> term;
  private final int[] starts;
  private final int[] postings;
  private final int shift;
  private final IntBinaryOperator frequency;

  /**
   * @param term returns a term by its number; terms are in ascending order
   * @param starts position of each term's first posting; one more entry than terms
   * @param postings document << shift of each posting, and anything in the bits below; ascending inside
   *     a term
   * @param frequency returns a posting's frequency, by the numbers of its term and itself; null for a
   *     field without frequencies
   */
  MemoryTerms(
      IntFunction<BytesRef> term, int[] starts, int[] postings, int shift, IntBinaryOperator frequency) {
    this.term = term;
    this.starts = starts;
    this.postings = postings;
    this.shift = shift;
    this.frequency = frequency;
  }

  @Override
  public TermsEnum iterator() {
    return new Iterator();
  }

  @Override
  public long size() {
    return starts.length - 1;
  }

  @Override
  public long getSumTotalTermFreq() {
    return -1;
  }

  @Override
  public long getSumDocFreq() {
    return postings.length;
  }

  @Override
  public int getDocCount() {
    return -1;
  }

  @Override
  public boolean hasFreqs() {
    return frequency != null;
  }

  @Override
  public boolean hasOffsets() {
    return false;
  }

  @Override
  public boolean hasPositions() {
    return false;
  }

  @Override
  public boolean hasPayloads() {
    return false;
  }

  private final class Iterator extends BaseTermsEnum {
    private int number = -1;

    @Override
    public BytesRef next() {
      return ++number < size() ? term() : null;
    }

    @Override
    public BytesRef term() {
      return term.apply(number);
    }

    @Override
    public int docFreq() {
      return starts[number + 1] - starts[number];
    }

    @Override
    public long totalTermFreq() {
      long sum = 0;
      for (int i = starts[number]; i < starts[number + 1]; i++) {
        sum += frequency == null ? 1 : frequency.applyAsInt(number, i);
      }
      return sum;
    }

    @Override
    public PostingsEnum postings(PostingsEnum reuse, int flags) {
      return new Column(number);
    }

    @Override
    public ImpactsEnum impacts(int flags) {
      throw new UnsupportedOperationException();
    }

    @Override
    public SeekStatus seekCeil(BytesRef text) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void seekExact(long number) {
      throw new UnsupportedOperationException();
    }

    @Override
    public long ord() {
      throw new UnsupportedOperationException();
    }
  }

  private final class Column extends PostingsEnum {
    private final int term;
    private final int end;
    private int at;
    private int document = -1;

    Column(int term) {
      this.term = term;
      at = starts[term] - 1;
      end = starts[term + 1];
    }

    @Override
    public int docID() {
      return document;
    }

    @Override
    public int nextDoc() {
      return document = ++at < end ? postings[at] >>> shift : NO_MORE_DOCS;
    }

    @Override
    public int advance(int target) {
      while (document < target) {
        nextDoc();
      }
      return document;
    }

    @Override
    public int freq() {
      return frequency == null ? 1 : frequency.applyAsInt(term, at);
    }

    @Override
    public long cost() {
      return end - at;
    }

    @Override
    public int nextPosition() {
      return -1;
    }

    @Override
    public int startOffset() {
      return -1;
    }

    @Override
    public int endOffset() {
      return -1;
    }

    @Override
    public BytesRef getPayload() {
      return null;
    }
  }
}
