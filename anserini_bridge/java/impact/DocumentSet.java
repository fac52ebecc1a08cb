package impact;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.TermsEnum;

/** The live documents that a search may return. */
public final class DocumentSet {
  private static final double MOST = 0.75; // of all documents: more get no postings of their own

  private final Object state; // of the reader
  final List<Documents> documents;

  /**
   * @param allowed a bit for each document of the reader, the lowest bit of a byte first
   * @param forMany whether the documents get postings of their own, which pays for many searches; if most
   *     documents are allowed they do not
   */
  DocumentSet(Snapshot snapshot, byte[] allowed, boolean forMany) {
    if (allowed.length != bytes(snapshot.reader.maxDoc())) {
      throw new IllegalArgumentException("the set is of another state of the index");
    }
    state = state(snapshot);
    ByteBuffer bytes = ByteBuffer
                           .allocate(allowed.length + 2 * Long.BYTES) // zeros for the last segment's end
                           .order(ByteOrder.LITTLE_ENDIAN)
                           .put(0, allowed);
    List<Part> parts = snapshot.segments.stream()
                           .map(segment -> new Part(segment, bits(bytes, segment)))
                           .sorted(Snapshot.LARGE_FIRST)
                           .toList();
    long count = parts.stream().mapToLong(part -> part.allowedCount).sum();
    documents = forMany && count <= MOST * snapshot.reader.maxDoc() ? List.of(snapshot.select(parts))
                                                                    : List.copyOf(parts);
  }

  private static long[] bits(ByteBuffer bytes, Segment segment) {
    long[] live = segment.live();
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
        for (int doc = postings.nextDoc(); doc != PostingsEnum.NO_MORE_DOCS; doc = postings.nextDoc()) {
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
