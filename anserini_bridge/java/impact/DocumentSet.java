package impact;

import java.io.IOException;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;

/**
 * The live documents that a search may return, a bit each. A segment's bits begin with a long of their
 * own, so that each block of BlockMax has its bits in one.
 */
final class DocumentSet {
  private final long[][] segments; // by the ordinal of the leaf

  /** @param allowed a bit for each document of the reader, the lowest bit of a byte first */
  DocumentSet(Snapshot snapshot, byte[] allowed) {
    if (allowed.length != bytes(snapshot.reader.maxDoc())) {
      throw new IllegalArgumentException("the set is of another state of the index");
    }
    segments = new long[snapshot.reader.leaves().size()][];
    for (LeafReaderContext leaf : snapshot.reader.leaves()) {
      int maxDoc = leaf.reader().maxDoc();
      Bits live = leaf.reader().getLiveDocs();
      long[] bits = new long[(maxDoc + Long.SIZE - 1) / Long.SIZE];
      for (int document = 0; document < maxDoc; document++) {
        int number = leaf.docBase + document;
        if ((allowed[number >>> 3] >>> (number & 7) & 1) != 0
            && (live == null || live.get(document))) {
          bits[document >>> 6] |= 1L << document;
        }
      }
      segments[leaf.ord] = bits;
    }
  }

  /** A segment's bits. */
  long[] of(Segment segment) {
    return segments[segment.leaf.ord];
  }

  /** The documents that have at least one of some words, packed as the constructor takes them. */
  static byte[] holding(Snapshot snapshot, int[] words) throws IOException {
    byte[] bits = new byte[bytes(snapshot.reader.maxDoc())];
    for (Segment segment : snapshot.segments) {
      for (int word : words) {
        TermsEnum term = segment.seek(word);
        if (term == null) {
          continue;
        }
        PostingsEnum postings = term.postings(null, PostingsEnum.NONE);
        for (int doc = postings.nextDoc();
            doc != PostingsEnum.NO_MORE_DOCS;
            doc = postings.nextDoc()) {
          int number = segment.docBase + doc;
          bits[number >>> 3] |= (byte) (1 << (number & 7));
        }
      }
    }
    return bits;
  }

  private static int bytes(int documents) {
    return (documents + 7) / 8;
  }
}
