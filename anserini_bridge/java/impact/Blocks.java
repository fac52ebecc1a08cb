package impact;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.zip.CRC32;
import org.apache.lucene.codecs.CodecUtil;
import org.apache.lucene.index.CorruptIndexException;
import org.apache.lucene.store.IndexInput;

/**
 * A file of Lucene's with a checksum of each of its blocks, which is compared when the block is first read:
 * Lucene's own covers the whole file. Thread-safe.
 */
final class Blocks {
  static final int SIZE = 1 << 14; // bytes

  private final IndexInput file;
  private final ByteBuffer sums; // CRC-32 of each block
  private final boolean[] right; // blocks that were compared; one that is compared twice does no harm

  /** @param sums see of */
  Blocks(IndexInput file, byte[] sums) throws IOException {
    this.file = file;
    this.sums = ByteBuffer.wrap(sums);
    right = new boolean[sums.length / Integer.BYTES];
    if (right.length != (file.length() + SIZE - 1) / SIZE) {
      throw new CorruptIndexException("the file has another length than when written", file);
    }
  }

  /** The checksums of a file's blocks (int32), after a comparison of the whole with Lucene's own. */
  static byte[] of(IndexInput file) throws IOException {
    ByteBuffer sums = ByteBuffer.allocate((int) ((file.length() + SIZE - 1) / SIZE) * Integer.BYTES);
    CRC32 all = new CRC32();
    CRC32 one = new CRC32();
    byte[] block = new byte[SIZE];
    long end = file.length() - Long.BYTES; // Lucene's checksum covers all before it
    file.seek(0);
    for (long at = 0; at < file.length(); at += SIZE) {
      int length = (int) Math.min(SIZE, file.length() - at);
      file.readBytes(block, 0, length);
      all.update(block, 0, (int) Math.max(0, Math.min(length, end - at)));
      one.reset();
      one.update(block, 0, length);
      sums.putInt((int) one.getValue());
    }
    file.seek(0);
    if (CodecUtil.retrieveChecksum(file) != all.getValue()) {
      throw new CorruptIndexException("the checksum is not " + Long.toHexString(all.getValue()), file);
    }
    file.seek(0);
    return sums.array();
  }

  static String text(byte[] sums) {
    return Base64.getEncoder().encodeToString(sums);
  }

  static byte[] read(String text) {
    return Base64.getDecoder().decode(text);
  }

  /**
   * Compares the blocks that have some bytes of the file.
   *
   * @throws UncheckedIOException one differs; Anserini drops an IOException and what it says
   */
  void check(long from, long to) throws IOException {
    for (int block = (int) (from / SIZE); (long) block * SIZE < to; block++) {
      if (!right[block]) {
        compare(block);
        right[block] = true;
      }
    }
  }

  private void compare(int block) throws IOException {
    long start = (long) block * SIZE;
    byte[] bytes = new byte[(int) Math.min(SIZE, file.length() - start)];
    IndexInput own = file.clone();
    own.seek(start);
    own.readBytes(bytes, 0, bytes.length);
    CRC32 sum = new CRC32();
    sum.update(bytes);
    if ((int) sum.getValue() != sums.getInt(block * Integer.BYTES)) {
      throw new UncheckedIOException(
          new CorruptIndexException("bytes from " + start + " on are not as written", file));
    }
  }
}
