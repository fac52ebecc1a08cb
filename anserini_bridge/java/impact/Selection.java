package impact;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/**
 * Documents of some segments, numbered anew without gaps, with postings of their own. A search of these
 * neither reads postings of other documents nor begins anew in each segment.
 */
final class Selection extends Documents {
  private static final int LOOK_UP = 12; // postings that are copied in the time one is looked up

  private final List<Part> parts;
  private final int[] numbers; // in the index
  private final int[][] before; // of each part, by block: documents of the selection before it
  private final Unpacked unpacked;

  /** Those documents of some parts that a search may find. */
  Selection(List<Part> parts, Unpacked unpacked) {
    super(parts.stream().mapToInt(part -> part.allowedCount).sum(), null);
    this.parts = parts;
    this.unpacked = unpacked;
    numbers = new int[this.count];
    before = new int[parts.size()][];
    int found = 0;
    for (int i = 0; i < before.length; i++) {
      Part part = parts.get(i);
      before[i] = new int[(part.count + Postings.BLOCK - 1) / Postings.BLOCK];
      for (int document = 0; document < part.count; document++) {
        if (document % Postings.BLOCK == 0) {
          before[i][document / Postings.BLOCK] = found;
        }
        if (part.allows(document)) {
          numbers[found++] = part.number(document);
        }
      }
    }
  }

  @Override
  int number(int document) {
    return numbers[document];
  }

  @Override
  List<Part> parts() {
    return parts;
  }

  @Override
  Postings postings(int word) throws IOException {
    Postings known = unpacked.get(word);
    return known == null ? unpacked.keep(word, select(word)) : known;
  }

  private Postings select(int word) throws IOException {
    Column column = new Column();
    for (int i = 0; i < before.length; i++) {
      Postings all = parts.get(i).postings(word);
      if (all == Postings.TOO_LARGE) {
        return all;
      }
      if (all != Postings.NONE) {
        column.add(all, parts.get(i), before[i]);
      }
    }
    return column.size == 0 ? Postings.NONE
                            : new Postings(Arrays.copyOf(column.documents, column.size),
                                  Arrays.copyOf(column.weights, column.size), count);
  }

  /** A word's postings. */
  private final class Column {
    int[] documents = {};
    int[] weights = {};
    int size;

    void add(Postings all, Part part, int[] before) {
      int most = size + Math.min(all.postings.length, part.allowedCount) + 1;
      if (most > documents.length) {
        documents = Arrays.copyOf(documents, most);
        weights = Arrays.copyOf(weights, most);
      }
      if ((long) part.allowedCount * LOOK_UP < all.postings.length) {
        int end = before[0] + part.allowedCount;
        for (int document = before[0]; document < end; document++) {
          int there = numbers[document] - part.segment.docBase;
          int weight = all.weight(there / Postings.GROUP, there % Postings.GROUP);
          add(document, weight, Math.min(weight, 1));
        }
        return;
      }
      for (int group = 0; group * Postings.GROUP < part.count; group++) {
        for (int i = all.start(group); i < all.end(group); i++) {
          int place = all.postings[i] & Postings.GROUP - 1;
          int block = group * Postings.BLOCKS + place / Postings.BLOCK;
          long upTo = part.allowedOf(block) << -1 - place; // this document, which is the highest bit
          int document = before[block] + Long.bitCount(upTo) - 1;
          add(document, all.postings[i] >>> Postings.GROUP_BITS, (int) (upTo >>> 63));
        }
      }
    }

    /** @param times 1, or 0: the posting is overwritten by the next, which takes less time than a branch */
    private void add(int document, int weight, int times) {
      documents[size] = document;
      weights[size] = weight;
      size += times;
    }
  }
}
