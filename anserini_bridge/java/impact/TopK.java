package impact;

/** The k best (score, document) pairs; documents must come in rising order, and ties keep the first. */
final class TopK {
  private final int k;
  private final long[] scores; // a binary heap: the worst pair is at the root
  private final int[] documents;
  private int size;

  TopK(int k) {
    this.k = k;
    scores = new long[k];
    documents = new int[k];
  }

  /** A score must be above this to enter. */
  long threshold() {
    return size < k ? 0 : scores[0];
  }

  void offer(long score, int document) {
    if (size < k) {
      int child = size++;
      for (int parent = (child - 1) >>> 1;
          child > 0 && worse(score, document, scores[parent], documents[parent]);
          parent = (child - 1) >>> 1) {
        set(child, scores[parent], documents[parent]);
        child = parent;
      }
      set(child, score, document);
    } else if (score > scores[0]) {
      sink(score, document);
    }
  }

  /** Empties the heap, best first, into arrays of length size(). */
  void drain(long[] bestScores, int[] bestDocuments) {
    while (size > 0) {
      bestScores[size - 1] = scores[0];
      bestDocuments[size - 1] = documents[0];
      size--;
      sink(scores[size], documents[size]);
    }
  }

  int size() {
    return size;
  }

  private void sink(long score, int document) {
    int parent = 0;
    for (int child = 1; child < size; child = 2 * parent + 1) {
      if (child + 1 < size
          && worse(scores[child + 1], documents[child + 1], scores[child], documents[child])) {
        child++;
      }
      if (!worse(scores[child], documents[child], score, document)) {
        break;
      }
      set(parent, scores[child], documents[child]);
      parent = child;
    }
    set(parent, score, document);
  }

  private void set(int at, long score, int document) {
    scores[at] = score;
    documents[at] = document;
  }

  private static boolean worse(long score, int document, long otherScore, int otherDocument) {
    return score < otherScore || (score == otherScore && document > otherDocument);
  }
}
