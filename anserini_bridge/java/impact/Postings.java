package impact;

import java.io.IOException;
import java.util.Arrays;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.TermsEnum;

/**
 * A term's postings in a segment, unpacked for search, and its largest weights in ranges of documents.
 * A group consists of 64 blocks, a block of four strips; a quad is four neighbouring blocks.
 *
 * <p>Largest weights are bytes: multiples of step, rounded up. A term that is in many blocks ("dense")
 * has one for every block, a quad in an int, so that a simple loop sums the bounds of four blocks at a
 * time.
 */
final class Postings {
  static final int STRIP = 16; // documents
  static final int BLOCK_BITS = 6;
  static final int BLOCK = 1 << BLOCK_BITS; // documents
  static final int GROUP_BITS = 12;
  static final int GROUP = 1 << GROUP_BITS; // documents
  static final int BLOCKS = GROUP / BLOCK; // per group: the number of bits in a long
  static final int QUADS = BLOCKS / 4; // per group
  private static final int STEPS = 255;
  private static final int MAX_WEIGHT = (1 << (32 - GROUP_BITS)) - 1;
  private static final int DENSE = 16; // a term is dense if it is in at least one of this many blocks

  /** A term that is not in the segment. */
  static final Postings NONE = new Postings(1);

  /** A term with a weight that is too large to pack. */
  static final Postings TOO_LARGE = new Postings(Integer.MAX_VALUE);

  /**
   * For each group all data that scoring it reads, side by side, as each distant access costs a look-up
   * in the page table. A posting is its weight and its position in the group: weight << GROUP_BITS |
   * document & GROUP - 1. If the term is dense, two ints with a bit for each block that has postings
   * come first. A record of two ints for each such block follows: the largest weights of its strips in
   * steps, a byte each, first strip lowest; and the number of postings in the group before the block
   * (12 bits) and in each of its strips (5 bits).
   */
  final int[] data;

  /** Where the data of each group begins, and the end of the last one's. */
  final int[] groupStarts;

  /** Dense: largest weights of each quad in steps, a byte per block, first block lowest; else null. */
  final int[] maxima;

  /** Not dense: by position in the quad, the quads whose block there has postings: quad << 8 | steps. */
  final int[][] someMaxima;

  /** Weight of a step: no weight is above its block's largest weight in steps times this. */
  final int step;

  private Postings(int step) {
    data = groupStarts = maxima = new int[0];
    someMaxima = null;
    this.step = step;
  }

  private Postings(int[] docs, int[] weights, int maxDoc) {
    int groups = (maxDoc + GROUP - 1) >>> GROUP_BITS;
    long[] used = new long[groups];
    int largest = 0;
    for (int i = 0; i < docs.length; i++) {
      largest = Math.max(largest, weights[i]);
      used[docs[i] >>> GROUP_BITS] |= 1L << (docs[i] >>> BLOCK_BITS);
    }
    int blocks = 0;
    for (long bits : used) {
      blocks += Long.bitCount(bits);
    }
    boolean dense = blocks >= groups * BLOCKS / DENSE;
    step = (largest - 1) / STEPS + 1;
    data = new int[docs.length + (dense ? 2 * (groups + blocks) : 0)];
    groupStarts = new int[groups + 1];
    int[] quads = new int[groups * QUADS];
    int next = 0; // of data
    int from = 0;
    for (int group = 0; group < groups; group++) {
      groupStarts[group] = next;
      int record = next;
      if (dense) {
        data[record++] = (int) used[group];
        data[record++] = (int) (used[group] >>> 32);
        next = record + 2 * Long.bitCount(used[group]);
      }
      int to = from;
      for (int block = -1; to < docs.length && docs[to] >>> GROUP_BITS == group; to++) {
        int document = docs[to];
        int steps = (weights[to] - 1) / step + 1;
        data[next++] = weights[to] << GROUP_BITS | document & GROUP - 1;
        raise(quads, document / BLOCK / 4, document / BLOCK, steps);
        if (dense) {
          if (document / BLOCK != block) {
            record += block < 0 ? 0 : 2;
            block = document / BLOCK;
            data[record + 1] = to - from;
          }
          int strip = document / STRIP & 3;
          raise(data, record, strip, steps);
          data[record + 1] += 1 << 12 + strip * 5;
        }
      }
      from = to;
    }
    groupStarts[groups] = next;
    maxima = dense ? quads : null;
    someMaxima = dense ? null : some(quads);
  }

  /** Raises a byte of an int to at least a number. */
  private static void raise(int[] values, int at, int place, int least) {
    int shift = (place & 3) * 8;
    values[at] += Math.max(0, least - (values[at] >>> shift & 0xff)) << shift;
  }

  private static int[][] some(int[] all) {
    int[][] some = new int[4][];
    int[] found = new int[all.length];
    for (int place = 0; place < 4; place++) {
      int count = 0;
      for (int quad = 0; quad < all.length; quad++) {
        int steps = all[quad] >>> place * 8 & 0xff;
        if (steps > 0) {
          found[count++] = quad << 8 | steps;
        }
      }
      some[place] = Arrays.copyOf(found, count);
    }
    return some;
  }

  /** The postings of the current term of an enumeration, or TOO_LARGE. */
  static Postings read(TermsEnum term, int maxDoc) throws IOException {
    PostingsEnum postings = term.postings(null, PostingsEnum.FREQS);
    int[] docs = new int[term.docFreq()];
    int[] weights = new int[docs.length];
    for (int i = 0; i < docs.length; i++) {
      docs[i] = postings.nextDoc();
      weights[i] = postings.freq();
      if (weights[i] > MAX_WEIGHT) {
        return TOO_LARGE;
      }
    }
    return new Postings(docs, weights, maxDoc);
  }

  boolean isDense() {
    return maxima != null;
  }

  /** Whether the term is dense and has more data than this in a group. */
  boolean isLong(int group, int longest) {
    return isDense() && groupStarts[group + 1] - groupStarts[group] > longest;
  }

  /** Dense: the blocks of a group that have postings, a bit each. */
  long used(int group) {
    int start = groupStarts[group];
    return data[start] & 0xffffffffL | (long) data[start + 1] << 32;
  }

  /** Where the postings of a group begin in data. */
  int firstPosting(int group) {
    int start = groupStarts[group];
    return isDense() ? afterRecords(start, used(group)) : start;
  }

  /** Position of the record of the lowest of some blocks, in a group with these used blocks. */
  static int record(int start, long used, long blocks) {
    return start + 2 + 2 * Long.bitCount(used & (blocks & -blocks) - 1);
  }

  static int afterRecords(int start, long used) {
    return start + 2 + 2 * Long.bitCount(used);
  }

  /** At least the largest weight in the strip of a document, by its position in a group; 0: none. */
  int stripMaximum(int group, int place) {
    if (!isDense()) {
      return weight(group, place);
    }
    int record = recordOf(group, place);
    return record < 0 ? 0 : (data[record] >>> (place / STRIP & 3) * 8 & 0xff) * step;
  }

  /** The weight of a document, by its position in a group; 0: the term is not in it. */
  int weight(int group, int place) {
    int low = groupStarts[group];
    int high = groupStarts[group + 1];
    if (isDense()) {
      int record = recordOf(group, place);
      if (record < 0) {
        return 0;
      }
      int counts = data[record + 1] >>> 12;
      low = firstPosting(group) + (data[record + 1] & 0xfff);
      high = low;
      for (int strip = 0; strip <= (place / STRIP & 3); strip++) {
        low = high;
        high += counts >>> strip * 5 & 31;
      }
    }
    int end = high;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if ((data[middle] & GROUP - 1) < place) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < end && (data[low] & GROUP - 1) == place ? data[low] >>> GROUP_BITS : 0;
  }

  /** Dense: position of the record of a document's block; -1: the block has no postings. */
  private int recordOf(int group, int place) {
    int start = groupStarts[group];
    long used = used(group);
    long block = 1L << place / BLOCK;
    return (used & block) == 0 ? -1 : record(start, used, block);
  }

  /** The highest score that the term can add at this query weight; capped just above the largest int. */
  long bound(int boost) {
    return boost > Integer.MAX_VALUE / ((long) step * STEPS)
        ? Integer.MAX_VALUE + 1L
        : (long) boost * step * STEPS;
  }

  long bytes() {
    long ints = 64L + data.length + groupStarts.length;
    if (isDense()) {
      return 4 * (ints + maxima.length);
    }
    for (int[] place : someMaxima) {
      ints += place.length;
    }
    return 4 * ints;
  }
}
