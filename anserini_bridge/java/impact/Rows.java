package impact;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.lucene.util.BytesRef;

/** Documents of the next segment: a CSR matrix of weights, ids, and the order of their addition. */
final class Rows {
  private static final long LARGE = 80; // bytes of a map's entry with its two numbers

  private int rows;
  private long[] orders = new long[1024];
  private int[] idEnds = new int[1024];
  private byte[] ids = new byte[1 << 14];
  private int[] ends = new int[1024];
  private int[] postings = new int[1 << 15];
  private final Map<Integer, Integer> large = new HashMap<>(); // weights that do not fit, by posting
  private final int weightBits;

  /** @param words number of words */
  Rows(int words) {
    weightBits = Integer.SIZE - bits(words);
  }

  int size() {
    return rows;
  }

  /** Bytes that the documents take. */
  long bytes() {
    return 4L * end(rows - 1) + idEnd(rows - 1) + 16L * rows + LARGE * large.size();
  }

  /** Bytes that writing them as a segment takes besides: their order, and postings and ids by term. */
  long bytesToWrite() {
    return 4L * end(rows - 1) + idEnd(rows - 1) + 40L * rows;
  }

  /** Whether documents and postings can be counted in an int after one more document. */
  boolean hasRoomFor(int newPostings, int idLength) {
    int most = Integer.MAX_VALUE - 64;
    return newPostings <= most - end(rows - 1) && idLength <= most - idEnd(rows - 1) && rows < most;
  }

  /** Adds a document with the words newWords[from:to], in any order, and their weights. */
  void add(BytesRef id, long order, int[] newWords, int[] newWeights, int from, int to) {
    if (rows == orders.length) {
      int more = grown(rows + 1);
      orders = Arrays.copyOf(orders, more);
      idEnds = Arrays.copyOf(idEnds, more);
      ends = Arrays.copyOf(ends, more);
    }
    int idStart = idEnd(rows - 1);
    int start = end(rows - 1);
    if (ids.length - idStart < id.length) {
      ids = Arrays.copyOf(ids, grown(idStart + id.length));
    }
    if (postings.length - start < to - from) {
      postings = Arrays.copyOf(postings, grown(start + to - from));
    }
    System.arraycopy(id.bytes, id.offset, ids, idStart, id.length);
    int most = mostWeight();
    for (int i = from, at = start; i < to; i++, at++) {
      postings[at] = newWords[i] << weightBits | Math.min(newWeights[i], most);
      if (newWeights[i] >= most) {
        large.put(at, newWeights[i]);
      }
    }
    orders[rows] = order;
    idEnds[rows] = idStart + id.length;
    ends[rows] = start + to - from;
    rows++;
  }

  long order(int row) {
    return orders[row];
  }

  /** Points a reference at a document's id. */
  void id(int row, BytesRef id) {
    id.bytes = ids;
    id.offset = idEnd(row - 1);
    id.length = idEnds[row] - id.offset;
  }

  int start(int row) {
    return end(row - 1);
  }

  int end(int row) {
    return row < 0 ? 0 : ends[row];
  }

  /** For each document the end of its postings. */
  int[] ends() {
    return ends;
  }

  /**
   * For each posting word << weightBits | weight; those of a document are at start(row) to end(row).
   * Weights from mostWeight on are this, see weight.
   */
  int[] postings() {
    return postings;
  }

  int weightBits() {
    return weightBits;
  }

  int mostWeight() {
    return (1 << weightBits) - 1;
  }

  int word(int posting) {
    return postings[posting] >>> weightBits;
  }

  int weight(int posting) {
    int weight = postings[posting] & mostWeight();
    return weight == mostWeight() ? large.get(posting) : weight;
  }

  /** The weight of a word that a document has. */
  int weight(int row, int word) {
    int posting = start(row);
    while (word(posting) != word) {
      posting++;
    }
    return weight(posting);
  }

  /** Bits that the numbers below a number need; at least one. */
  static int bits(int numbers) {
    return Integer.SIZE - Integer.numberOfLeadingZeros(Math.max(1, numbers - 1));
  }

  private int idEnd(int row) {
    return row < 0 ? 0 : idEnds[row];
  }

  private static int grown(int least) {
    return (int) Math.min(Integer.MAX_VALUE - 64, least + (least >> 1) + 16L);
  }
}
