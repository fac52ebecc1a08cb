package impact;

import java.util.Arrays;
import org.apache.lucene.util.BytesRef;

/** Documents of the next segment: a CSR matrix of weights, ids, and the order of their addition. */
final class Rows {
  private int rows;
  private long[] orders = new long[1024];
  private int[] idEnds = new int[1024];
  private byte[] ids = new byte[1 << 14];
  private int[] ends = new int[1024];
  private int[] terms = new int[1 << 15];
  private int[] weights = new int[1 << 15];

  int size() {
    return rows;
  }

  /** Bytes of the documents; their postings count twice, as writing a segment copies them. */
  long bytes() {
    return 16L * end(rows - 1) + idEnd(rows - 1) + 32L * rows;
  }

  /** Whether documents and postings can be counted in an int after one more document. */
  boolean hasRoomFor(int postings, int idLength) {
    int most = Integer.MAX_VALUE - 64;
    return postings <= most - end(rows - 1) && idLength <= most - idEnd(rows - 1) && rows < most;
  }

  /** Adds a document with the terms newTerms[from:to], in any order, and their weights. */
  void add(BytesRef id, long order, int[] newTerms, int[] newWeights, int from, int to) {
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
    if (terms.length - start < to - from) {
      int more = grown(start + to - from);
      terms = Arrays.copyOf(terms, more);
      weights = Arrays.copyOf(weights, more);
    }
    System.arraycopy(id.bytes, id.offset, ids, idStart, id.length);
    System.arraycopy(newTerms, from, terms, start, to - from);
    System.arraycopy(newWeights, from, weights, start, to - from);
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

  /** For each posting the word's number; those of a document are at start(row) to end(row). */
  int[] terms() {
    return terms;
  }

  int[] weights() {
    return weights;
  }

  private int idEnd(int row) {
    return row < 0 ? 0 : idEnds[row];
  }

  private static int grown(int least) {
    return (int) Math.min(Integer.MAX_VALUE - 64, least + (least >> 1) + 16L);
  }
}
