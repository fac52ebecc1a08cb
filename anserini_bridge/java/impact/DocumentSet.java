package impact;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.stream.IntStream;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.TermsEnum;

/**
 * The live documents that a search may return, a bit each. A segment's bits begin with a long of their
 * own, so that each block of BlockMax has its bits in one.
 */
public final class DocumentSet {
  private final Object state; // of the reader
  private final Part[] segments; // by the ordinal of the leaf

  /** The documents of a segment. */
  static final class Part {
    final long[] bits;
    final int[] emptyBlocks; // of BlockMax: without an allowed document

    private Part(long[] bits) {
      this.bits = bits;
      emptyBlocks = IntStream.range(0, bits.length).filter(block -> bits[block] == 0).toArray();
    }
  }

  /** @param allowed a bit for each document of the reader, the lowest bit of a byte first */
  DocumentSet(Snapshot snapshot, byte[] allowed) {
    if (allowed.length != bytes(snapshot.reader.maxDoc())) {
      throw new IllegalArgumentException("the set is of another state of the index");
    }
    state = state(snapshot);
    ByteBuffer bytes =
        ByteBuffer.allocate(allowed.length + 2 * Long.BYTES) // zeros for the last segment's end
            .order(ByteOrder.LITTLE_ENDIAN)
            .put(0, allowed);
    segments = new Part[snapshot.reader.leaves().size()];
    for (Segment segment : snapshot.segments) {
      segments[segment.leaf.ord] = new Part(bits(bytes, segment));
    }
  }

  private static long[] bits(ByteBuffer bytes, Segment segment) {
    long[] live = segment.liveBits();
    long[] bits = new long[(segment.maxDoc + Long.SIZE - 1) / Long.SIZE];
    int shift = segment.docBase & 7;
    for (int i = 0; i < bits.length; i++) {
      int at = (segment.docBase >>> 3) + i * Long.BYTES;
      long here = bytes.getLong(at) >>> shift;
      long after = (long) bytes.get(at + Long.BYTES) << 1 << Long.SIZE - 1 - shift;
      bits[i] = (here | after) & (live == null ? -1 : live[i]);
    }
    int beyond = -segment.maxDoc & Long.SIZE - 1; // bits of the next segment
    if (bits.length > 0) {
      bits[bits.length - 1] &= -1L >>> beyond;
    }
    return bits;
  }

  private static Object state(Snapshot snapshot) {
    return snapshot.reader.getReaderCacheHelper().getKey();
  }

  /** Refuses a search of another state of the index. */
  void check(Snapshot snapshot) {
    if (state(snapshot) != state) {
      throw new IllegalArgumentException("the set is of another state of the index");
    }
  }

  Part of(Segment segment) {
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
