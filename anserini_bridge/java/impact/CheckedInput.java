package impact;

import java.io.IOException;
import org.apache.lucene.store.FilterIndexInput;
import org.apache.lucene.store.IndexInput;
import org.apache.lucene.store.RandomAccessInput;

/** A file, or a slice of one, that is compared with the checksums of its blocks as it is read. */
final class CheckedInput extends FilterIndexInput implements RandomAccessInput {
  private static final int LONGEST = 10; // bytes of a number of variable length

  private final Blocks blocks;
  private final long offset; // of the slice in the file
  private long from; // what is known to be right, from here to there in the slice
  private long to;

  CheckedInput(String description, IndexInput in, Blocks blocks, long offset) {
    super(description, in);
    this.blocks = blocks;
    this.offset = offset;
  }

  @Override
  public IndexInput clone() {
    return new CheckedInput(toString(), in.clone(), blocks, offset);
  }

  @Override
  public IndexInput slice(String description, long start, long length) throws IOException {
    IndexInput part = in.slice(description, start, length);
    return new CheckedInput(description, part, blocks, offset + start);
  }

  @Override
  public RandomAccessInput randomAccessSlice(long start, long length) throws IOException {
    return (RandomAccessInput) slice("random access", start, length);
  }

  private void check(long count) throws IOException {
    check(in.getFilePointer(), count);
  }

  private void check(long position, long count) throws IOException {
    if (position < from || position + count > to) {
      checkBlocks(position, count);
    }
  }

  private void checkBlocks(long position, long count) throws IOException {
    long end = Math.min(position + count, in.length()); // reading beyond fails by itself
    if (position < 0 || position >= end) {
      return;
    }
    blocks.check(offset + position, offset + end);
    from = (offset + position) / Blocks.SIZE * Blocks.SIZE - offset;
    to = ((offset + end - 1) / Blocks.SIZE + 1) * Blocks.SIZE - offset;
  }

  @Override
  public byte readByte() throws IOException {
    check(1);
    return in.readByte();
  }

  @Override
  public void readBytes(byte[] bytes, int start, int length) throws IOException {
    check(length);
    in.readBytes(bytes, start, length);
  }

  @Override
  public short readShort() throws IOException {
    check(Short.BYTES);
    return in.readShort();
  }

  @Override
  public int readInt() throws IOException {
    check(Integer.BYTES);
    return in.readInt();
  }

  @Override
  public long readLong() throws IOException {
    check(Long.BYTES);
    return in.readLong();
  }

  @Override
  public int readVInt() throws IOException {
    check(LONGEST);
    return in.readVInt();
  }

  @Override
  public long readVLong() throws IOException {
    check(LONGEST);
    return in.readVLong();
  }

  @Override
  public void readInts(int[] numbers, int start, int length) throws IOException {
    check((long) length * Integer.BYTES);
    in.readInts(numbers, start, length);
  }

  @Override
  public void readLongs(long[] numbers, int start, int length) throws IOException {
    check((long) length * Long.BYTES);
    in.readLongs(numbers, start, length);
  }

  @Override
  public void readFloats(float[] numbers, int start, int length) throws IOException {
    check((long) length * Float.BYTES);
    in.readFloats(numbers, start, length);
  }

  @Override
  public byte readByte(long position) throws IOException {
    check(position, 1);
    return ((RandomAccessInput) in).readByte(position);
  }

  @Override
  public short readShort(long position) throws IOException {
    check(position, Short.BYTES);
    return ((RandomAccessInput) in).readShort(position);
  }

  @Override
  public int readInt(long position) throws IOException {
    check(position, Integer.BYTES);
    return ((RandomAccessInput) in).readInt(position);
  }

  @Override
  public long readLong(long position) throws IOException {
    check(position, Long.BYTES);
    return ((RandomAccessInput) in).readLong(position);
  }
}
