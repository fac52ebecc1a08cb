package impact;

import java.util.Arrays;
import java.util.concurrent.RecursiveAction;
import org.apache.lucene.util.IntroSelector;

/**
 * Places similar documents side by side, so that the largest weights of a block are close to those of
 * each of its documents: balanced two-means, repeated in the halves, down to a strip.
 *
 * <p>A word speaks for a cluster by its share: how much more of the word's weight this cluster has than
 * the other one, divided by what both have. So rare words count as much as frequent ones, as in the gains
 * of recursive graph bisection (Dhulipala et al., KDD 2016).
 *
 * <p>The order does not depend on the number of threads.
 */
final class Clustering {
  private static final int SAMPLE = 256; // documents that the two clusters are computed from
  private static final int ROUNDS = 1; // of two-means
  private static final int COARSE_SAMPLE = 1024; // the same above a group: few and decisive splits
  private static final int COARSE_ROUNDS = 4;
  private static final int UNSURE = 4; // average weights, added to what both have: a rare word says less
  private static final int PART = 1 << 10; // documents that are copied together, to fit into the cache
  private static final int FETCHED = 32; // documents that are fetched together
  private static final int LINE = 64 / Integer.BYTES; // postings in a cache line
  private static final int SERIAL = 1 << 14; // documents for which a separate task is not worth its cost

  // a CSR matrix, see Rows
  private int words;
  private int[] ends;
  private int[] postings;
  private int weightBits;

  private int[] order; // rows
  @SuppressWarnings("unused") private int fetched; // keeps the compiler from removing the reads
  private float[] scores; // of the documents, by position in the order

  /** The rows in their new order. */
  static int[] order(Rows rows, int words) {
    Clustering clustering = new Clustering();
    clustering.words = words;
    clustering.ends = rows.ends();
    clustering.postings = rows.postings();
    clustering.weightBits = rows.weightBits();
    clustering.order = new int[rows.size()];
    clustering.scores = new float[rows.size()];
    Arrays.setAll(clustering.order, row -> row);
    clustering.new Split(0, rows.size(), ThreadLocal.withInitial(() -> new Scratch(words))).invoke();
    return clustering.order;
  }

  private final class Split extends RecursiveAction {
    private static final long serialVersionUID = 1;
    private final int from;
    private final int to;
    private final transient ThreadLocal<Scratch> scratch;

    Split(int from, int to, ThreadLocal<Scratch> scratch) {
      this.from = from;
      this.to = to;
      this.scratch = scratch;
    }

    @Override
    protected void compute() {
      if (to - from <= PART) {
        scratch.get().split(Clustering.this, from, to);
        return;
      }
      int middle = halve(from, to, scratch.get().toward, scratch.get().away);
      Split left = new Split(from, middle, scratch);
      Split right = new Split(middle, to, scratch);
      if (to - from > SERIAL) {
        invokeAll(left, right);
      } else {
        left.compute();
        right.compute();
      }
    }
  }

  /** The working memory of a thread. */
  private static final class Scratch {
    final float[] toward;
    final float[] away;
    private final int[] numbers; // number of each word in the part, from 1; 0: not in the part
    private final int[] used; // words of the part
    private final Clustering part = new Clustering();

    Scratch(int words) {
      toward = new float[words];
      away = new float[words];
      numbers = new int[words];
      used = new int[words];
      part.ends = new int[PART];
      part.order = new int[PART];
      part.scores = new float[PART];
      part.postings = new int[0];
    }

    /** Orders a part of a matrix, in a copy of that part. */
    void split(Clustering whole, int from, int to) {
      copy(whole, from, to);
      part.split(0, to - from, toward, away);
      for (int i = 0; i < to - from; i++) {
        part.order[i] = whole.order[from + part.order[i]];
      }
      System.arraycopy(part.order, 0, whole.order, from, to - from);
    }

    private void copy(Clustering whole, int from, int to) {
      int size = 0;
      for (int at = from; at < to; at++) {
        size += whole.ends[whole.order[at]] - whole.start(whole.order[at]);
        part.ends[at - from] = size;
        part.order[at - from] = at - from;
      }
      if (part.postings.length < size) {
        part.postings = new int[size];
      }
      part.weightBits = whole.weightBits;
      int weightMask = (1 << whole.weightBits) - 1;
      part.words = 0;
      int next = 0;
      for (int at = from; at < to; at++) {
        int row = whole.order[at];
        for (int i = whole.start(row); i < whole.ends[row]; i++) {
          int posting = whole.postings[i];
          int word = posting >>> whole.weightBits;
          if (numbers[word] == 0) {
            used[part.words++] = word;
            numbers[word] = part.words;
          }
          part.postings[next++] = numbers[word] - 1 << whole.weightBits | posting & weightMask;
        }
      }
      for (int i = 0; i < part.words; i++) {
        numbers[used[i]] = 0;
      }
    }
  }

  private void split(int from, int to, float[] toward, float[] away) {
    if (to - from > Postings.STRIP) {
      int middle = halve(from, to, toward, away);
      split(from, middle, toward, away);
      split(middle, to, toward, away);
    }
  }

  /**
   * Moves the documents of one cluster before a middle, which it returns, and those of the other behind.
   *
   * @param toward working memory, as is away: one zero per word; zeros again afterwards
   */
  private int halve(int from, int to, float[] toward, float[] away) {
    boolean coarse = to - from > Postings.GROUP;
    int unit = coarse ? Postings.GROUP : to - from > Postings.BLOCK ? Postings.BLOCK : Postings.STRIP;
    int middle = from + ((to - from + unit - 1) / unit + 1) / 2 * unit;
    int step = Math.max(1, (to - from) / (coarse ? COARSE_SAMPLE : SAMPLE));
    int sampled = (to - from) / step;
    // the sample is moved to the front, so that its positions hold its scores
    for (int i = 0; i < sampled; i++) {
      swap(from + i, from + i * step);
    }
    int end = from + sampled;
    int half = from + sampled / 2;
    add(toward, from, from + 1, 1); // two seeds: a document, and the least similar one
    int far = from;
    float least = Float.MAX_VALUE;
    for (int at = from; at < end; at++) {
      float score = score(toward, order[at]);
      if (score < least) {
        least = score;
        far = at;
      }
    }
    add(toward, far, far + 1, -1);
    for (int round = 0; round < (coarse ? COARSE_ROUNDS : ROUNDS); round++) {
      score(toward, from, end);
      select(from, half, end);
      Arrays.fill(toward, 0, words, 0);
      float weights = add(toward, from, half, 1) + add(away, half, end, 1);
      compare(toward, away, UNSURE * Math.max(1, weights) / Math.max(1, postings(from, end)));
    }
    score(toward, from, to);
    select(from, middle, to);
    Arrays.fill(toward, 0, words, 0);
    return middle;
  }

  /** Turns the weights of each word in two clusters into what the word says for the first. */
  private void compare(float[] toward, float[] away, float unsure) {
    for (int word = 0; word < words; word++) {
      float difference = toward[word] - away[word];
      toward[word] = difference / (toward[word] + away[word] + unsure);
      away[word] = 0;
    }
  }

  private void score(float[] toward, int from, int to) {
    for (int begin = from; begin < to; begin += FETCHED) {
      int end = Math.min(begin + FETCHED, to);
      fetch(begin, end);
      for (int at = begin; at < end; at++) {
        scores[at] = score(toward, order[at]);
      }
    }
  }

  /** Reads from each cache line of some documents, which are far apart, so that many are fetched at once. */
  private void fetch(int from, int to) {
    int sum = 0;
    for (int at = from; at < to; at++) {
      int end = ends[order[at]];
      for (int i = start(order[at]); i < end; i += LINE) {
        sum += postings[i];
      }
    }
    fetched = sum;
  }

  private float score(float[] toward, int row) {
    float sum = 0;
    int end = ends[row];
    int weightMask = (1 << weightBits) - 1;
    for (int i = start(row); i < end; i++) {
      int posting = postings[i];
      sum += (posting & weightMask) * toward[posting >>> weightBits];
    }
    return sum;
  }

  /** Adds up the weights of some documents by word, times a sign; returns the sum of all. */
  private float add(float[] sums, int from, int to, float sign) {
    int weightMask = (1 << weightBits) - 1;
    long all = 0;
    for (int at = from; at < to; at++) {
      int end = ends[order[at]];
      for (int i = start(order[at]); i < end; i++) {
        int posting = postings[i];
        sums[posting >>> weightBits] += sign * (posting & weightMask);
        all += posting & weightMask;
      }
    }
    return all;
  }

  private int postings(int from, int to) {
    int count = 0;
    for (int at = from; at < to; at++) {
      count += ends[order[at]] - start(order[at]);
    }
    return count;
  }

  private int start(int row) {
    return row == 0 ? 0 : ends[row - 1];
  }

  /** Moves the documents with the highest scores before middle. */
  private void select(int from, int middle, int to) {
    if (from < middle && middle < to) {
      new ByScore().select(from, to, middle);
    }
  }

  private final class ByScore extends IntroSelector {
    private float pivot;

    @Override
    protected void setPivot(int at) {
      pivot = scores[at];
    }

    @Override
    protected int comparePivot(int at) {
      return Float.compare(scores[at], pivot); // higher scores first
    }

    @Override
    protected void swap(int a, int b) {
      Clustering.this.swap(a, b);
    }
  }

  private void swap(int a, int b) {
    int row = order[a];
    order[a] = order[b];
    order[b] = row;
    float score = scores[a];
    scores[a] = scores[b];
    scores[b] = score;
  }
}
