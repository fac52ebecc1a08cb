package impact;

import java.util.Arrays;

/**
 * Runs of postings that will be added up. They are far apart in memory: collecting a run starts to fetch
 * it, so that many are fetched in parallel, whereas adding each one directly would wait for each.
 */
final class Runs {
  private static final int LINE = 16; // ints of a cache line

  private int count;
  private int[][] data = new int[64][];
  private int[] starts = new int[64];
  private int[] ends = new int[64];
  private int[] blocks = new int[64];
  private int[] boosts = new int[64];

  /** The sum of what was fetched: not used, but it keeps the compiler from removing the reads. */
  private int fetched;

  /** Starts to fetch array[from:to]: reads from each cache line, without waiting in between. */
  void fetch(int[] array, int from, int to) {
    int sum = 0;
    for (int at = from; at < to; at += LINE) {
      sum += array[at];
    }
    fetched += sum;
  }

  /** Collects the postings array[from:to] of a block. */
  void collect(int[] array, int from, int to, int block, int boost) {
    if (count == starts.length) {
      grow();
    }
    data[count] = array;
    starts[count] = from;
    ends[count] = to;
    blocks[count] = block;
    boosts[count++] = boost;
    fetch(array, from, to);
  }

  private void grow() {
    data = Arrays.copyOf(data, 2 * count);
    starts = Arrays.copyOf(starts, 2 * count);
    ends = Arrays.copyOf(ends, 2 * count);
    blocks = Arrays.copyOf(blocks, 2 * count);
    boosts = Arrays.copyOf(boosts, 2 * count);
  }

  /** Adds all runs to the sums of a group, and raises the tops of the four strips of each one's block. */
  void addTo(int[] sums, int[] tops) {
    for (int i = 0; i < count; i++) {
      int top = add(data[i], starts[i], ends[i], boosts[i], sums);
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
