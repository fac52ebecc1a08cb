package impact;

import java.util.Arrays;

/**
 * Runs of postings that will be added up. They are far apart in memory: collecting a run starts to fetch
 * it, so that many are fetched in parallel, whereas adding each one directly would wait for each.
 */
final class Runs {
  private static final int LINE = 64; // bytes of a cache line

  private int count;
  private int[] terms = new int[64]; // numbers, as storing the arrays costs a barrier of the collector
  private int[] starts = new int[64];
  private int[] ends = new int[64];
  private int[] blocks = new int[64];

  /** The sum of what was fetched: not used, but it keeps the compiler from removing the reads. */
  @SuppressWarnings("unused") private int fetched;

  /** Starts to fetch array[from:to]: reads from each cache line, without waiting in between. */
  void fetch(int[] array, int from, int to) {
    int sum = 0;
    for (int at = from; at < to; at += LINE / Integer.BYTES) {
      sum += array[at];
    }
    fetched += sum;
  }

  void fetch(long[] array, int from, int to) {
    int sum = 0;
    for (int at = from; at < to; at += LINE / Long.BYTES) {
      sum += (int) array[at];
    }
    fetched += sum;
  }

  /** Collects the postings array[from:to] of a term in a block. */
  void collect(int term, int[] array, int from, int to, int block) {
    if (count == starts.length) {
      grow();
    }
    terms[count] = term;
    starts[count] = from;
    ends[count] = to;
    blocks[count++] = block;
    fetch(array, from, to);
  }

  private void grow() {
    terms = Arrays.copyOf(terms, 2 * count);
    starts = Arrays.copyOf(starts, 2 * count);
    ends = Arrays.copyOf(ends, 2 * count);
    blocks = Arrays.copyOf(blocks, 2 * count);
  }

  /** Adds all runs to the sums of a group, and raises the tops of the four strips of each one's block. */
  void addTo(int[] sums, int[] tops, Postings[] postings, int[] boosts) {
    for (int i = 0; i < count; i++) {
      int term = terms[i];
      int top = add(postings[term].postings, starts[i], ends[i], boosts[term], sums);
      for (int strip = 4 * blocks[i]; strip < 4 * blocks[i] + 4; strip++) {
        tops[strip] = Math.max(tops[strip], top);
      }
    }
    count = 0;
  }

  private static int add(int[] data, int from, int to, int boost, int[] sums) {
    int top = 0;
    for (int i = from; i < to; i++) {
      int posting = data[i];
      int sum = sums[posting & sums.length - 1] += boost * (posting >>> Postings.GROUP_BITS);
      top = Math.max(top, sum);
    }
    return top;
  }
}
