package impact;

/**
 * The k best documents by score; of equal ones those that were added first.
 *
 * <p>Documents are appended, and cut to the k best now and then, which takes much less time than keeping
 * a heap of a thousand in order.
 */
final class TopK {
  private final int k;
  private final long[] scores;
  private final int[] documents;
  private final Snapshot snapshot;
  private int size;
  private long minimum = 1;

  TopK(int k, Snapshot snapshot) {
    this.k = k;
    this.snapshot = snapshot;
    int room = (int) Math.min(4L * k + 64, Integer.MAX_VALUE - 64);
    scores = new long[room];
    documents = new int[room];
  }

  /** The lowest score with which a document may still be among the best. */
  long minimum() {
    return minimum;
  }

  /** Adds a document whose score is at least minimum(). */
  void offer(long score, int document) {
    if (size == scores.length) {
      cut();
    }
    scores[size] = score;
    documents[size++] = document;
  }

  /** Raises minimum() if enough documents were offered. */
  void settle() {
    if (size > k + k / 4 || size >= k && minimum == 1) {
      cut();
    }
  }

  /** Keeps only the best and sorts them, best first. */
  void finish() {
    if (size > k) {
      cut();
    }
    sort(0, size - 1);
  }

  int size() {
    return size;
  }

  long score(int rank) {
    return scores[rank];
  }

  int document(int rank) {
    return documents[rank];
  }

  private void cut() {
    int low = 0;
    int high = size - 1;
    while (low < high) {
      int split = partition(low, high);
      if (split >= k) {
        high = split - 1;
      } else {
        low = split;
      }
      if (low == k) {
        break;
      }
    }
    size = k;
    minimum = scores[0];
    for (int i = 1; i < k; i++) {
      minimum = Math.min(minimum, scores[i]);
    }
  }

  private void sort(int low, int high) {
    while (low < high) {
      int split = partition(low, high);
      sort(low, split - 1);
      low = split;
    }
  }

  /** Moves better documents before split, which it returns (Hoare); low < split <= high. */
  private int partition(int low, int high) {
    int middle = (low + high) >>> 1;
    long score = scores[middle];
    int document = documents[middle];
    int left = low;
    int right = high;
    while (true) {
      while (better(scores[left], documents[left], score, document)) {
        left++;
      }
      while (better(score, document, scores[right], documents[right])) {
        right--;
      }
      if (left >= right) {
        return left > low ? left : left + 1;
      }
      swap(left++, right--);
    }
  }

  private void swap(int a, int b) {
    long score = scores[a];
    scores[a] = scores[b];
    scores[b] = score;
    int document = documents[a];
    documents[a] = documents[b];
    documents[b] = document;
  }

  private boolean better(long score, int document, long otherScore, int otherDocument) {
    return score > otherScore
        || score == otherScore && document != otherDocument
        && snapshot.order(document) < snapshot.order(otherDocument);
  }
}
