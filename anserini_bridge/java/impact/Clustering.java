package impact;

import java.util.Arrays;
import java.util.concurrent.RecursiveAction;
import org.apache.lucene.util.IntroSelector;

/**
 * Lays similar documents side by side, so that the best weights of a block say much about each of its
 * documents: balanced two-means, again and again inside the halves, down to a
 * strip.
 *
 * <p>The order does not depend on threads.
 */
final class Clustering {
  private static final int SAMPLE = 512; // documents that decide where a half begins
  private static final int ROUNDS = 2; // of two-means
  private static final int SERIAL = 1 << 14; // documents for which a task of its own does not pay

  private final Rows rows;
  private final int words;
  private final int[] order;
  private final float[] scores; // of the documents, by place in the order
  private final ThreadLocal<float[]> direction;

  private Clustering(Rows rows, int words) {
    this.rows = rows;
    this.words = words;
    order = new int[rows.size()];
    scores = new float[rows.size()];
    direction = ThreadLocal.withInitial(() -> new float[this.words]);
    for (int row = 0; row < order.length; row++) {
      order[row] = row;
    }
  }

  /** The rows in their new order. */
  static int[] order(Rows rows, int words) {
    Clustering clustering = new Clustering(rows, words);
    clustering.new Split(0, rows.size()).invoke();
    return clustering.order;
  }

  private final class Split extends RecursiveAction {
    private static final long serialVersionUID = 1;
    private final int from;
    private final int to;

    Split(int from, int to) {
      this.from = from;
      this.to = to;
    }

    @Override
    protected void compute() {
      if (to - from <= Postings.STRIP) {
        return;
      }
      int unit = to - from > Postings.BLOCK ? Postings.BLOCK : Postings.STRIP;
      int middle = from + ((to - from + unit - 1) / unit + 1) / 2 * unit;
      halve(from, middle, to);
      Split left = new Split(from, middle);
      Split right = new Split(middle, to);
      if (to - from > SERIAL) {
        invokeAll(left, right);
      } else {
        left.compute();
        right.compute();
      }
    }
  }

  /** Brings the documents of one cluster before middle and those of the other behind it. */
  private void halve(int from, int middle, int to) {
    float[] toward = direction.get();
    int step = Math.max(1, (to - from) / SAMPLE);
    int sampled = (to - from) / step;
    // the sample goes to the front, where its places hold its scores
    for (int i = 0; i < sampled; i++) {
      swap(from + i, from + i * step);
    }
    int end = from + sampled;
    int half = from + sampled / 2;
    add(toward, from, 1); // two seeds: a document, and the one that is least like it
    int far = from;
    float least = Float.MAX_VALUE;
    for (int at = from; at < end; at++) {
      float score = score(toward, order[at]);
      if (score < least) {
        least = score;
        far = at;
      }
    }
    add(toward, far, -1);
    for (int round = 0; round < ROUNDS; round++) {
      score(toward, from, end);
      select(from, half, end);
      Arrays.fill(toward, 0);
      for (int at = from; at < end; at++) {
        add(toward, at, at < half ? 1 : -1);
      }
    }
    score(toward, from, to);
    select(from, middle, to);
    Arrays.fill(toward, 0);
  }

  private void score(float[] toward, int from, int to) {
    for (int at = from; at < to; at++) {
      scores[at] = score(toward, order[at]);
    }
  }

  private float score(float[] toward, int row) {
    int[] terms = rows.terms();
    int[] weights = rows.weights();
    float sum = 0;
    int end = rows.end(row);
    for (int i = rows.start(row); i < end; i++) {
      sum += weights[i] * toward[terms[i]];
    }
    return sum;
  }

  private void add(float[] toward, int at, float sign) {
    int row = order[at];
    int[] terms = rows.terms();
    int[] weights = rows.weights();
    for (int i = rows.start(row); i < rows.end(row); i++) {
      toward[terms[i]] += sign * weights[i];
    }
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
