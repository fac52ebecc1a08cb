package impact;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/** Documents that are searched together, numbered from 0. */
abstract class Documents {
  final int count;
  final int allowedCount; // of those that a search may find
  private final long[] allowed; // a bit each, lowest first; null: all
  private final int[] emptyBlocks;

  /** @param allowed those that a search may find, a bit each, lowest first; null: all */
  Documents(int count, long[] allowed) {
    this.count = count;
    this.allowed = allowed;
    if (allowed == null) {
      allowedCount = count;
      emptyBlocks = new int[0];
    } else {
      int[] found = new int[allowed.length];
      int empty = 0;
      int some = 0;
      for (int block = 0; block < allowed.length; block++) {
        found[empty] = block;
        empty += allowed[block] == 0 ? 1 : 0;
        some += Long.bitCount(allowed[block]);
      }
      allowedCount = some;
      emptyBlocks = Arrays.copyOf(found, empty);
    }
  }

  final boolean allows(int document) {
    return allowed == null || (allowed[document >>> 6] >>> document & 1) != 0;
  }

  /** Those of a block (see Postings) that a search may find, a bit each; block 0 has the first ones. */
  final long allowedOf(int block) {
    return allowed == null ? -1 : allowed[block];
  }

  /** The blocks without a document that a search may find. */
  final int[] emptyBlocks() {
    return emptyBlocks;
  }

  /** Whether a search may find less than half of them. */
  final boolean areFew() {
    return allowedCount < count / 2;
  }

  /** The postings of a word, which are unpacked when a query first needs them. */
  abstract Postings postings(int word) throws IOException;

  /** The number of a document in the index. */
  abstract int number(int document);

  /** The same documents, as those of segments. */
  abstract List<Part> parts();
}
