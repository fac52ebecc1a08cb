package impact;

/** Queries as the rows of a CSR matrix; of a row, the words and weights lie between two positions. */
final class Queries {
  final int count;
  private final int[] packed; // count + 1 limits of rows, then words, then weights
  private final int entries;

  private Queries(int[] packed, int count) {
    this.packed = packed;
    this.count = count;
    entries = (packed.length - count - 1) / 2;
  }

  /**
   * Reads limits, words and weights (int32, see Packed).
   *
   * @return null if that is no matrix of the given width, with rising words in each row and weights
   *     above 0: to check it here takes less time than in Python
   */
  static Queries read(byte[] bytes, int count, int width) {
    Queries queries = new Queries(Packed.ints(bytes), count);
    return queries.areValid(width) ? queries : null;
  }

  private boolean areValid(int width) {
    if (packed[0] != 0 || packed[count] != entries) {
      return false;
    }
    for (int row = 0; row < count; row++) {
      int before = -1;
      if (end(row) < start(row) || end(row) > entries) {
        return false;
      }
      for (int i = start(row); i < end(row); i++) {
        if (word(i) <= before || word(i) >= width || weight(i) < 1) {
          return false;
        }
        before = word(i);
      }
    }
    return true;
  }

  int start(int row) {
    return packed[row];
  }

  int end(int row) {
    return packed[row + 1];
  }

  int word(int position) {
    return packed[count + 1 + position];
  }

  int weight(int position) {
    return packed[count + 1 + entries + position];
  }
}
