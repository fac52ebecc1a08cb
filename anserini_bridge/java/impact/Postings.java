package impact;

import java.io.IOException;
import java.util.Arrays;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.TermsEnum;

/**
 * A term's postings, unpacked for search, and its largest weights in ranges of documents.
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
  private static final int MANY = 24; // postings of a term in a group: from here on it has records there
  static final int FULL = 1024; // and from here on triples

  /** A term that is not in the segment. */
  static final Postings NONE = new Postings(1);

  /** A term with a weight that is too large to pack. */
  static final Postings TOO_LARGE = new Postings(Integer.MAX_VALUE);

  /** In order of documents: a weight and the position in its group: weight << GROUP_BITS | position. */
  final int[] postings;

  /**
   * Of each group with many postings of the term, a record of each block: the largest weights of its strips
   * in steps, a byte each, first strip lowest; then the number of postings in the group before the block
   * (12 bits) and in each of its strips (5 bits). 0: no postings.
   */
  final long[] records;

  /** For each group where its postings begin, and where its records begin; then where the last one ends. */
  private final int[] starts;

  /** Of each group with very many postings of the term its Triples, else null; null: no such group. */
  private final int[][] triples;

  /** Dense: largest weights of each quad in steps, a byte per block, first block lowest; else null. */
  final int[] maxima;

  /** Not dense: by position in the quad, the quads whose block there has postings: quad << 8 | steps. */
  final int[][] someMaxima;

  /** Weight of a step: no weight is above its block's largest weight in steps times this. */
  final int step;

  private Postings(int step) {
    postings = starts = maxima = new int[0];
    records = new long[0];
    triples = someMaxima = null;
    this.step = step;
  }

  /**
   * Postings of a term.
   *
   * @param docs its documents, ascending
   * @param weights its weight in each of these, at most MAX_WEIGHT
   * @param count documents in all
   */
  Postings(int[] docs, int[] weights, int count) {
    int groups = (count + GROUP - 1) >>> GROUP_BITS;
    starts = new int[2 * groups + 1];
    long[] used = new long[groups];
    int largest = 0;
    for (int i = 0; i < docs.length; i++) {
      largest = Math.max(largest, weights[i]);
      used[docs[i] >>> GROUP_BITS] |= 1L << (docs[i] >>> BLOCK_BITS);
      starts[2 * (docs[i] >>> GROUP_BITS) + 2]++;
    }
    int blocks = 0;
    int recordCount = 0;
    for (int group = 0; group < groups; group++) {
      blocks += Long.bitCount(used[group]);
      starts[2 * group + 1] = recordCount;
      recordCount += starts[2 * group + 2] < MANY ? 0 : BLOCKS;
      starts[2 * group + 2] += starts[2 * group];
    }
    step = (largest - 1) / STEPS + 1;
    postings = new int[docs.length];
    records = new long[recordCount];
    int[] quads = new int[groups * QUADS];
    for (int i = 0; i < docs.length; i++) {
      int document = docs[i];
      int group = document >>> GROUP_BITS;
      int steps = (weights[i] - 1) / step + 1;
      postings[i] = weights[i] << GROUP_BITS | document & GROUP - 1;
      int quad = document / BLOCK / 4;
      quads[quad] = (int) raise(quads[quad], document / BLOCK & 3, steps);
      if (hasRecords(group)) {
        int at = record(group, document & GROUP - 1);
        int strip = document / STRIP & 3;
        long before = records[at] == 0 ? (long) (i - start(group)) << 32 : records[at];
        records[at] = raise(before, strip, steps) + (1L << 44 + strip * 5);
      }
    }
    triples = packTriples(groups);
    boolean dense = blocks >= groups * BLOCKS / DENSE;
    maxima = dense ? quads : null;
    someMaxima = dense ? null : some(quads);
  }

  private int[][] packTriples(int groups) {
    int[][] all = null;
    for (int group = 0; group < groups; group++) {
      if (end(group) - start(group) >= FULL) {
        all = all == null ? new int[groups][] : all;
        all[group] = Triples.pack(postings, start(group), end(group));
      }
    }
    return all;
  }

  /** Raises one of the four lowest bytes of a number to at least another one. */
  private static long raise(long bytes, int place, int least) {
    int shift = place * 8;
    return bytes + ((long) Math.max(0, least - (int) (bytes >>> shift & 0xff)) << shift);
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

  /** Where the postings of a group begin. */
  int start(int group) {
    return starts[2 * group];
  }

  /** Where the postings of a group end. */
  int end(int group) {
    return starts[2 * group + 2];
  }

  /** Where the records of a group begin, if it has them. */
  int records(int group) {
    return starts[2 * group + 1];
  }

  /** The weights in all documents of a group, if the term is in many of them; else null. */
  int[] triples(int group) {
    return triples == null ? null : triples[group];
  }

  private boolean hasRecords(int group) {
    return end(group) - start(group) >= MANY;
  }

  /** Position of the record of the block of a document, by the document's position in its group. */
  private int record(int group, int place) {
    return records(group) + place / BLOCK;
  }

  /** At least the largest weight in the strip of a document, by its position in a group; 0: none. */
  int stripMaximum(int group, int place) {
    if (!hasRecords(group)) {
      return weight(group, place);
    }
    return (int) (records[record(group, place)] >>> (place / STRIP & 3) * 8 & 0xff) * step;
  }

  /** The weight of a document, by its position in a group; 0: the term is not in it. */
  int weight(int group, int place) {
    int[] all = triples(group);
    if (all != null) {
      return Triples.weight(all, place);
    }
    int low = start(group);
    int high = end(group);
    if (hasRecords(group)) {
      int counts = (int) (records[record(group, place)] >>> 32);
      low += counts & 0xfff;
      high = low;
      for (int strip = 0; strip <= (place / STRIP & 3); strip++) {
        low = high;
        high += counts >>> 12 + strip * 5 & 31;
      }
    }
    int end = high;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if ((postings[middle] & GROUP - 1) < place) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < end && (postings[low] & GROUP - 1) == place ? postings[low] >>> GROUP_BITS : 0;
  }

  /** The highest score that the term can add at this query weight; capped just above the largest int. */
  long bound(int boost) {
    return boost > Integer.MAX_VALUE / ((long) step * STEPS) ? Integer.MAX_VALUE + 1L
                                                             : (long) boost * step * STEPS;
  }

  long bytes() {
    long ints = 64L + postings.length + 2L * records.length + starts.length;
    for (int group = 0; triples != null && group < triples.length; group++) {
      ints += triples[group] == null ? 1 : 1 + triples[group].length;
    }
    if (isDense()) {
      return 4 * (ints + maxima.length);
    }
    for (int[] place : someMaxima) {
      ints += place.length;
    }
    return 4 * ints;
  }
}
