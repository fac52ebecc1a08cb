package impact;

import java.io.IOException;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.FixedBitSet;

/** A segment of an open index, with its unpacked postings. */
final class Segment {
  final LeafReaderContext leaf;
  final int docBase;
  final int maxDoc;
  private final long[] live;
  private final Unpacked unpacked;

  Segment(LeafReaderContext leaf, Unpacked unpacked) {
    this.leaf = leaf;
    this.unpacked = unpacked;
    docBase = leaf.docBase;
    maxDoc = leaf.reader().maxDoc();
    Bits notDeleted = leaf.reader().getLiveDocs();
    live = notDeleted == null ? null : FixedBitSet.copyOf(notDeleted).getBits();
  }

  Object key() {
    return leaf.reader().getCoreCacheHelper().getKey();
  }

  Unpacked unpacked() {
    return unpacked;
  }

  /** The live documents, a bit each, lowest first; null: no document is deleted. */
  long[] live() {
    return live;
  }

  /** The postings of a word, which are unpacked when a query first needs them; see Unpacked. */
  Postings postings(int word) throws IOException {
    Postings known = unpacked.get(word);
    if (known != null) {
      return known;
    }
    TermsEnum term = seek(word);
    return unpacked.keep(word, term == null ? Postings.NONE : Postings.read(term, maxDoc));
  }

  /** Lucene's enumeration at a word's term; null if the segment does not have it. */
  TermsEnum seek(int word) throws IOException {
    return unpacked.seek(leaf.reader(), word);
  }

  /** The position of a document in the order in which documents were added. */
  long order(int document) throws IOException {
    long[] orders = unpacked.orders(leaf.reader());
    return orders == null ? document : orders[document - docBase];
  }
}
