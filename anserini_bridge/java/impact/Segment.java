package impact;

import java.io.IOException;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;

/** A segment of an open index, with what was unpacked of it. */
final class Segment {
  final LeafReaderContext leaf;
  private final Bits live; // null: all documents
  final int docBase;
  final int maxDoc;
  private final Unpacked unpacked;

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

  /** The postings of a word, which are unpacked when a query first names it; see Unpacked. */
  Postings postings(int word) throws IOException {
    return unpacked.postings(leaf.reader(), word);
  }

  /** Lucene's view of a word; null if the segment does not have it. */
  TermsEnum seek(int word) throws IOException {
    return unpacked.seek(leaf.reader(), word);
  }

  /** Whether a document, counted from the segment's first, was not deleted. */
  boolean isLive(int document) {
    return live == null || live.get(document);
  }

  /** When a document came. */
  long order(int document) throws IOException {
    return unpacked.orders(leaf.reader())[document - docBase];
  }
}
