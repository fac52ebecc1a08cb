package impact;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.BytesRef;

/**
 * The postings that searches have unpacked so far. Those of a segment are shared by all states of the
 * index that contain it, as deletions do not change them.
 */
final class Unpacked {
  final boolean isCopy;
  private final BytesRef[] words;
  private final Memory memory;
  private final AtomicReferenceArray<Postings> terms;
  private volatile long[] orders;

  /** @param isCopy whether the postings are taken from other unpacked ones */
  Unpacked(BytesRef[] words, Memory memory, boolean isCopy) {
    this.isCopy = isCopy;
    this.words = words;
    this.memory = memory;
    terms = new AtomicReferenceArray<>(words.length);
    memory.hold(this);
  }

  /** The postings of a word; null: not unpacked so far. */
  Postings get(int word) {
    return terms.get(word);
  }

  /** Keeps the postings of a word, and returns them. */
  Postings keep(int word, Postings postings) {
    memory.take(postings.bytes());
    terms.set(word, postings);
    return postings;
  }

  /** An enumeration at the word's term; null if the segment does not have it. */
  TermsEnum seek(LeafReader segment, int word) throws IOException {
    Terms contents = segment.terms(Writer.CONTENTS);
    TermsEnum term = contents == null ? null : contents.iterator();
    return term != null && term.seekExact(words[word]) ? term : null;
  }

  /** The positions of a segment's documents as they were added; null: another program wrote it. */
  long[] orders(LeafReader segment) throws IOException {
    long[] known = orders;
    if (known == null) {
      NumericDocValues values = segment.getNumericDocValues(Writer.ORDER);
      if (values == null) {
        return null;
      }
      known = new long[segment.maxDoc()];
      for (int document = 0; document < known.length; document++) {
        values.advanceExact(document);
        known[document] = values.longValue();
      }
      orders = known;
    }
    return known;
  }

  long bytes() {
    long sum = 0;
    for (int word = 0; word < words.length; word++) {
      Postings known = terms.get(word);
      sum += known == null ? 0 : known.bytes();
    }
    return sum;
  }

  void clear() {
    for (int word = 0; word < words.length; word++) {
      terms.lazySet(word, null);
    }
  }
}
