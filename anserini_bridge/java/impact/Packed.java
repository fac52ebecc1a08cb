package impact;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.BytesRefHash;

/**
 * What Python and Java send each other: little-endian numbers, as Python has them on most machines, and
 * strings as a UTF-8 block and the offset at which each ends.
 */
final class Packed {
  private Packed() {}

  static int[] ints(byte[] bytes) {
    int[] values = new int[bytes.length / Integer.BYTES];
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(values);
    return values;
  }

  /** A buffer for what is sent to Python. */
  static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  static String string(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  static BytesRef[] strings(byte[] block, byte[] packedEnds) {
    int[] ends = ints(packedEnds);
    BytesRef[] strings = new BytesRef[ends.length];
    int start = 0;
    for (int i = 0; i < ends.length; i++) {
      strings[i] = new BytesRef(block, start, ends[i] - start);
      start = ends[i];
    }
    return strings;
  }

  /** The positions of distinct strings, sorted by the strings' bytes. */
  static int[] sorted(BytesRef[] strings) {
    BytesRefHash hash = new BytesRefHash();
    for (BytesRef string : strings) {
      hash.add(string); // gets the next number
    }
    return Arrays.copyOf(hash.sort(), strings.length);
  }

  static Path path(byte[] utf8) {
    return Path.of(string(utf8));
  }
}
