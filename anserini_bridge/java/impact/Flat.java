package impact;

import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.BytesRef;

/**
 * Copies a commit's live documents to one file, which is searched without Java; anserini_bridge.flat says
 * what is in it. They keep Lucene's order, in which similar ones are side by side.
 */
public final class Flat {
  private final List<LeafReader> segments = new ArrayList<>();
  private final List<int[]> numbers = new ArrayList<>(); // of each segment's documents; -1: deleted
  private final int count; // of live documents

  private Flat(DirectoryReader reader) {
    int next = 0;
    for (LeafReaderContext leaf : reader.leaves()) {
      Bits live = leaf.reader().getLiveDocs();
      int[] numbered = new int[leaf.reader().maxDoc()];
      for (int document = 0; document < numbered.length; document++) {
        numbered[document] = live == null || live.get(document) ? next++ : -1;
      }
      segments.add(leaf.reader());
      numbers.add(numbered);
    }
    count = next;
  }

  /** Copies a commit, see Commits.find, to a file. */
  public static void write(byte[] path, byte[] commit, byte[] wordBlock, byte[] wordEnds, byte[] file)
      throws IOException {
    try (Directory directory = FSDirectory.open(Packed.path(path));
        DirectoryReader reader = DirectoryReader.open(Commits.find(directory, Packed.string(commit)));
        OutputStream out = new BufferedOutputStream(Files.newOutputStream(Packed.path(file)), 1 << 20)) {
      new Flat(reader).write(Packed.strings(wordBlock, wordEnds), out);
    }
  }

  private void write(BytesRef[] words, OutputStream out) throws IOException {
    List<int[]> weights = new ArrayList<>();
    int[] starts = new int[words.length + 1];
    int largest = 0;
    for (int word = 0; word < words.length; word++) {
      int[][] list = list(words[word]);
      out.write(pack(list[0], Integer.BYTES));
      weights.add(list[1]);
      starts[word + 1] = Math.addExact(starts[word], list[0].length);
      largest = Math.max(largest, Arrays.stream(list[1]).max().orElse(0));
    }
    int width = largest < 1 << 8 ? Byte.BYTES : largest < 1 << 16 ? Short.BYTES : Integer.BYTES;
    for (int[] row : weights) {
      out.write(pack(row, width));
    }
    BytesRef[] ids = ids();
    int[] ends = new int[count];
    ByteArrayOutputStream block = new ByteArrayOutputStream();
    for (int i = 0; i < count; i++) {
      block.write(ids[i].bytes, ids[i].offset, ids[i].length);
      ends[i] = block.size();
    }
    out.write(new byte[-starts[words.length] * (Integer.BYTES + width) & Long.BYTES - 1]);
    out.write(orders());
    for (int[] numbers : List.of(starts, ends, Packed.sorted(ids))) {
      out.write(pack(numbers, Integer.BYTES));
    }
    block.writeTo(out);
    out.write(
        pack(new int[] {words.length, starts[words.length], width, count, block.size()}, Integer.BYTES));
  }

  /** The live documents that have a word, and its weight in each. */
  private int[][] list(BytesRef word) throws IOException {
    int[][] list = new int[2][0];
    int size = 0;
    for (int i = 0; i < segments.size(); i++) {
      Terms terms = segments.get(i).terms(Writer.CONTENTS);
      TermsEnum term = terms == null ? null : terms.iterator();
      if (term == null || !term.seekExact(word)) {
        continue;
      }
      for (int row = 0; row < 2; row++) {
        list[row] = Arrays.copyOf(list[row], size + term.docFreq());
      }
      PostingsEnum postings = term.postings(null, PostingsEnum.FREQS);
      for (int doc = postings.nextDoc(); doc != PostingsEnum.NO_MORE_DOCS; doc = postings.nextDoc()) {
        if (numbers.get(i)[doc] >= 0) {
          list[0][size] = numbers.get(i)[doc];
          list[1][size++] = postings.freq();
        }
      }
    }
    return new int[][] {Arrays.copyOf(list[0], size), Arrays.copyOf(list[1], size)};
  }

  private BytesRef[] ids() throws IOException {
    BytesRef[] ids = new BytesRef[count];
    int next = 0;
    for (LeafReader segment : segments) {
      for (BytesRef id : Ids.of(segment)) {
        ids[next++] = id;
      }
    }
    return ids;
  }

  /** The position of each document in the order in which they were added. */
  private byte[] orders() throws IOException {
    ByteBuffer out = Packed.buffer(Math.multiplyExact(count, Long.BYTES));
    for (int i = 0; i < segments.size(); i++) {
      NumericDocValues orders = segments.get(i).getNumericDocValues(Writer.ORDER);
      for (int document = 0; document < numbers.get(i).length; document++) {
        if (numbers.get(i)[document] >= 0) {
          orders.advanceExact(document);
          out.putLong(orders.longValue());
        }
      }
    }
    return out.array();
  }

  /** Whole numbers in 1, 2 or 4 bytes each. */
  private static byte[] pack(int[] numbers, int width) {
    ByteBuffer out = Packed.buffer(Math.multiplyExact(numbers.length, width));
    for (int number : numbers) {
      switch (width) {
        case Byte.BYTES -> out.put((byte) number);
        case Short.BYTES -> out.putShort((short) number);
        default -> out.putInt(number);
      }
    }
    return out.array();
  }
}
