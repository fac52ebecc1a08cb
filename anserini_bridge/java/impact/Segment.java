package impact;

import java.io.IOException;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;

/** A segment of an open index, with its unpacked postings. */
final class Segment {
  final LeafReaderContext leaf;
  private final Bits live; // null: no document is deleted
  final int docBase;
  final int maxDoc;
  private final Unpacked unpacked;
  private volatile long[] liveBits;

  Segment(LeafReaderContext leaf, Unpacked unpacked) {
    this.leaf = leaf;
    this.unpacked = unpacked;
    live = leaf.reader().getLiveDocs();
    docBase = leaf.docBase;
    maxDoc = leaf.reader().maxDoc();
  }

  Object key() {
    return leaf.reader().getCoreCacheHelper().getKey();
  }

  Unpacked unpacked() {
    return unpacked;
  }

  /** The postings of a word, which are unpacked when a query first needs them; see Unpacked. */
  Postings postings(int word) throws IOException {
    return unpacked.postings(leaf.reader(), word);
  }

  /** Lucene's enumeration at a word's term; null if the segment does not have it. */
  TermsEnum seek(int word) throws IOException {
    return unpacked.seek(leaf.reader(), word);
  }

  /**
   * Whether a search may find a document, which is numbered from the segment's first.
   *
   * @param allowed the live documents that it may find, see DocumentSet; null: all live ones
   */
  boolean allows(int document, DocumentSet.Part allowed) {
    return allowed == null
        ? live == null || live.get(document)
        : (allowed.bits[document >>> 6] >>> document & 1) != 0;
  }

  /** The live documents, a bit each, lowest first; null: no document is deleted. */
  long[] liveBits() {
    if (live != null && liveBits == null) {
      long[] bits = new long[(maxDoc + Long.SIZE - 1) / Long.SIZE];
      for (int document = 0; document < maxDoc; document++) {
        bits[document >>> 6] |= live.get(document) ? 1L << document : 0;
      }
      liveBits = bits;
    }
    return liveBits;
  }

  /** The position of a document in the order in which documents were added. */
  long order(int document) throws IOException {
    return unpacked.orders(leaf.reader())[document - docBase];
  }
}
