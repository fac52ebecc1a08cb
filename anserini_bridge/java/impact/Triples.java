package impact;

/**
 * The weights of a term in all documents of a group, three in an int, and the sums of such weights.
 *
 * <p>Where a term is in many documents of a group, a loop over all of them, which the compiler turns into
 * vector instructions, takes less time than one over its postings.
 */
final class Triples {
  /** Ints of a group: a third of its documents, in whole cache lines. The next third is in the next bits. */
  static final int LENGTH = (Postings.GROUP / 3 / 16 + 1) * 16;

  private static final int BITS = 10;
  private static final int LARGEST = (1 << BITS) - 1;

  private final int[] first = new int[LENGTH];
  private final int[] second = new int[LENGTH];
  private final int[] third = new int[LENGTH];
  private boolean empty = true;

  /** The weights of the postings [from:to] of a group, see Postings; null if one is too large. */
  static int[] pack(int[] postings, int from, int to) {
    int[] triples = new int[LENGTH];
    for (int i = from; i < to; i++) {
      int place = postings[i] & Postings.GROUP - 1;
      int weight = postings[i] >>> Postings.GROUP_BITS;
      if (weight > LARGEST) {
        return null;
      }
      triples[place % LENGTH] |= weight << place / LENGTH * BITS;
    }
    return triples;
  }

  /** The weight of a document, by its position in the group. */
  static int weight(int[] triples, int place) {
    return triples[place % LENGTH] >>> place / LENGTH * BITS & LARGEST;
  }

  void add(int[] triples, int boost) {
    if (empty) {
      set(first, second, third, triples, boost);
      empty = false;
    } else {
      add(first, second, third, triples, boost);
    }
  }

  /** Adds the sums of what was added, if anything was, to those of a group, and begins again. */
  void moveTo(int[] sums) {
    if (!empty) {
      add(sums, 0, first, LENGTH);
      add(sums, LENGTH, second, LENGTH);
      add(sums, 2 * LENGTH, third, sums.length - 2 * LENGTH);
      empty = true;
    }
  }

  private static void add(int[] sums, int from, int[] some, int count) {
    for (int i = 0; i < count; i++) {
      sums[from + i] += some[i];
    }
  }

  private static void set(int[] first, int[] second, int[] third, int[] triples, int boost) {
    for (int i = 0; i < LENGTH; i++) {
      int three = triples[i];
      first[i] = (three & LARGEST) * boost;
      second[i] = (three >>> BITS & LARGEST) * boost;
      third[i] = (three >>> 2 * BITS) * boost;
    }
  }

  private static void add(int[] first, int[] second, int[] third, int[] triples, int boost) {
    for (int i = 0; i < LENGTH; i++) {
      int three = triples[i];
      first[i] += (three & LARGEST) * boost;
      second[i] += (three >>> BITS & LARGEST) * boost;
      third[i] += (three >>> 2 * BITS) * boost;
    }
  }
}
