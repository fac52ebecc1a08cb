package impact;

import java.util.Arrays;

/**
 * Search that skips most documents: what cannot reach the k best so far is not scored.
 *
 * <p>Block-max pruning (BMP: Mallia, Suel and Tonellotto, SIGIR 2024) on three levels. The bound of a
 * block is the sum over terms of its largest weight times the query's. Only groups that have a block
 * with a high enough bound are visited. There, all weights of short terms are added up first, and where
 * many blocks are open those of long terms too, which have Triples: at first those of heavy terms, then,
 * if a strip may still reach the k best with the bound of the light terms in its block, those of light
 * ones (MaxScore: Turtle and Flood, 1995). Then the strips of the remaining blocks are bounded by those
 * sums and by the largest weights of the other terms. These are added up for the remaining strips, a few
 * terms at a time, and strips whose bound has become too low are dropped in between.
 *
 * <p>Not thread-safe: each thread has its own.
 */
final class BlockMax {
  private static final int FIRST = 4; // groups that are searched first, to find good scores early
  private static final double GOOD = 0.5; // of their highest bound: blocks above are scored
  private static final int SHORT =
      64; // postings added in the time one block is looked up; at least Postings.MANY
  private static final double HEAVY = 0.65; // of the sum of all terms' bounds: what the heavy ones have
  private static final int FEW = 16; // terms: up to here all are heavy, as two rounds take longer
  private static final int TERMS = 3; // added between two checks of the bounds
  private static final int PART = 1024; // quads whose largest weights are fetched ahead
  private static final int LOOK_UP = 12; // postings that are added in the time one is looked up

  private final int[] sums = new int[Postings.GROUP];
  private final int[] tops = new int[4 * Postings.BLOCKS]; // of each strip: no sum is higher
  private final int[] stripBounds = new int[4 * Postings.BLOCKS]; // of terms not yet in the sums
  private final int[] strips = new int[Postings.BLOCKS]; // of each block, a bit per open strip
  private final Runs runs = new Runs();
  private final Triples triples = new Triples();
  private final int[][] bounds = new int[4][0]; // of blocks, by position in the quad, and quad
  private final int[][] lightBounds = new int[4][0]; // what light terms add to these
  private int[] quadBounds = {};
  private int[] groupBounds = {};
  private int[] longTerms = {};
  private int longCount;
  private final int[] places = new int[Postings.GROUP]; // of documents that are scored one by one
  private int few; // documents in places
  private long scored; // blocks of the last group that were scored, a bit each

  private Documents documents;
  private Postings[] terms;
  private int[] boosts;
  private int count;
  private int heavy; // terms, which are the first ones
  private TopK best;
  private double alpha;

  /**
   * Offers those of some documents that a search may find to the k best.
   *
   * @param terms the query's terms, in the first count entries
   * @param boosts the terms' weights in the query; the sum of the terms' bounds must fit into an int
   * @param alpha 1 is exact; bounds are multiplied by a lower value, so that more is skipped
   */
  void search(Documents documents, Postings[] terms, int[] boosts, int count, TopK best, double alpha) {
    this.documents = documents;
    this.terms = terms;
    this.boosts = boosts;
    this.count = count;
    this.best = best;
    this.alpha = alpha;
    sortTerms();
    heavy = countHeavy();
    int groups = (documents.count + Postings.GROUP - 1) >>> Postings.GROUP_BITS;
    prepare(groups);
    addBounds(groups * Postings.QUADS);
    for (int block : documents.emptyBlocks()) {
      bounds[block & 3][block >>> 2] = -1;
    }
    maxOfFour(quadBounds, bounds[0], bounds[1], bounds[2], bounds[3], groups * Postings.QUADS);
    for (int group = 0; group < groups; group++) {
      groupBounds[group] = max(quadBounds, group * Postings.QUADS, Postings.QUADS);
    }
    for (int i = 0; i < Math.min(FIRST, groups); i++) {
      int group = argmax(groupBounds, groups);
      long needed = needed(0);
      if (groupBounds[group] < needed) {
        return;
      }
      score(group, Math.max(needed, (long) (GOOD * groupBounds[group])));
      groupBounds[group] = close(group);
    }
    for (int group = 0; group < groups; group++) { // in memory order, which the processor prefetches
      long needed = needed(0);
      if (groupBounds[group] >= needed) {
        score(group, needed);
      }
    }
  }

  /** The bound that documents with this score so far must reach. */
  private long needed(int score) {
    long missing = best.minimum() - score;
    return alpha == 1 ? missing : (long) (missing / alpha);
  }

  /** Sorts terms by falling bound, so that the bounds of the remaining ones fall fast. */
  private void sortTerms() {
    for (int i = 1; i < count; i++) {
      Postings term = terms[i];
      int boost = boosts[i];
      int at = i;
      for (; at > 0 && terms[at - 1].bound(boosts[at - 1]) < term.bound(boost); at--) {
        terms[at] = terms[at - 1];
        boosts[at] = boosts[at - 1];
      }
      terms[at] = term;
      boosts[at] = boost;
    }
  }

  /** The fewest terms with the given share of the sum of all terms' bounds; all, if they are few. */
  private int countHeavy() {
    if (count <= FEW) {
      return count;
    }
    long all = 0;
    for (int i = 0; i < count; i++) {
      all += terms[i].bound(boosts[i]);
    }
    long sum = 0;
    int number = 0;
    while (sum < HEAVY * all) {
      sum += terms[number].bound(boosts[number]);
      number++;
    }
    return number;
  }

  private void prepare(int groups) {
    int quads = groups * Postings.QUADS;
    if (groupBounds.length < groups) {
      for (int place = 0; place < 4; place++) {
        bounds[place] = new int[quads];
        lightBounds[place] = new int[quads];
      }
      quadBounds = new int[quads];
      groupBounds = new int[groups];
    } else {
      for (int[] place : bounds) {
        Arrays.fill(place, 0, quads, 0);
      }
    }
    if (longTerms.length < count) {
      longTerms = new int[count];
    }
  }

  /**
   * Adds up the bounds of blocks, those of light terms also alone; those of dense terms part by part, as
   * they come from far memory.
   */
  private void addBounds(int quads) {
    addSomeBounds(heavy, count);
    for (int from = 0; from < quads; from += PART) {
      int to = Math.min(quads, from + PART);
      for (int i = 0; i < count; i++) {
        if (terms[i].isDense()) {
          runs.fetch(terms[i].maxima, from, to);
        }
      }
      addDenseBounds(heavy, count, from, to);
      for (int place = 0; place < 4 && heavy < count; place++) {
        System.arraycopy(bounds[place], from, lightBounds[place], from, to - from);
      }
      addDenseBounds(0, heavy, from, to);
    }
    addSomeBounds(0, heavy);
  }

  private void addDenseBounds(int first, int last, int from, int to) {
    for (int i = first; i < last; i++) {
      if (terms[i].isDense()) {
        int boost = boosts[i] * terms[i].step;
        addQuads(bounds[0], bounds[1], bounds[2], bounds[3], terms[i].maxima, from, to, boost);
      }
    }
  }

  private void addSomeBounds(int first, int last) {
    for (int i = first; i < last; i++) {
      if (!terms[i].isDense()) {
        addSomeBounds(terms[i], boosts[i] * terms[i].step);
      }
    }
  }

  private void addSomeBounds(Postings term, int boost) {
    for (int place = 0; place < 4; place++) {
      for (int entry : term.someMaxima[place]) {
        bounds[place][entry >>> 8] += (entry & 0xff) * boost;
      }
    }
  }

  // The compiler turns the next two loops into vector instructions.

  private static void addQuads(
      int[] a, int[] b, int[] c, int[] d, int[] maxima, int from, int to, int boost) {
    for (int i = from; i < to; i++) {
      int four = maxima[i];
      a[i] += (four & 0xff) * boost;
      b[i] += (four >>> 8 & 0xff) * boost;
      c[i] += (four >>> 16 & 0xff) * boost;
      d[i] += (four >>> 24) * boost;
    }
  }

  private static void maxOfFour(int[] out, int[] a, int[] b, int[] c, int[] d, int count) {
    for (int i = 0; i < count; i++) {
      out[i] = Math.max(Math.max(a[i], b[i]), Math.max(c[i], d[i]));
    }
  }

  /** Scores the blocks of a group whose bound is good enough. */
  private void score(int group, long needed) {
    scored = openBlocks(group, needed);
    if (documents.areFew() && fewAllowed(group, scored)) {
      scoreOneByOne(group);
      best.settle();
      return;
    }
    long blocks = addUp(group, scored);
    for (; blocks != 0; blocks &= blocks - 1) {
      int block = Long.numberOfTrailingZeros(blocks);
      for (int open = strips[block]; open != 0; open &= open - 1) {
        int strip = block * 4 + Integer.numberOfTrailingZeros(open);
        if (tops[strip] >= best.minimum()) {
          offer(group * Postings.GROUP, strip * Postings.STRIP);
        }
      }
    }
    Arrays.fill(sums, 0);
    Arrays.fill(tops, 0);
    best.settle();
  }

  /** Collects the allowed documents of some blocks; false: looking each up takes longer than addUp. */
  private boolean fewAllowed(int group, long blocks) {
    int longest = SHORT * Long.bitCount(blocks);
    long postings = 0;
    for (int i = 0; i < count; i++) {
      boolean asTriples = triples(i, group, longest) != null;
      int number = asTriples ? Postings.FULL / 2 : terms[i].end(group) - terms[i].start(group);
      postings += Math.min(longest, number);
    }
    long most = Math.min(postings / (LOOK_UP * count), Postings.GROUP);
    few = 0;
    for (long open = blocks; open != 0; open &= open - 1) {
      int block = Long.numberOfTrailingZeros(open);
      long allowed = documents.allowedOf(group * Postings.BLOCKS + block);
      if (few + Long.bitCount(allowed) > most) {
        return false;
      }
      for (; allowed != 0; allowed &= allowed - 1) {
        places[few++] = block * Postings.BLOCK + Long.numberOfTrailingZeros(allowed);
      }
    }
    return true;
  }

  /** Scores the collected documents, those with a high enough bound of their strip. */
  private void scoreOneByOne(int group) {
    Arrays.fill(sums, 0, few, 0);
    for (int i = 0; i < count; i++) {
      for (int j = 0; j < few; j++) {
        sums[j] += boosts[i] * terms[i].stripMaximum(group, places[j]);
      }
    }
    long needed = needed(0);
    int left = 0;
    for (int j = 0; j < few; j++) {
      if (sums[j] >= needed) {
        places[left++] = places[j];
      }
    }
    Arrays.fill(sums, 0, few, 0);
    for (int i = 0; i < count; i++) {
      for (int j = 0; j < left; j++) {
        sums[j] += boosts[i] * terms[i].weight(group, places[j]);
      }
    }
    for (int j = 0; j < left; j++) {
      if (sums[j] >= best.minimum()) {
        best.offer(sums[j], documents.number(group * Postings.GROUP + places[j]));
      }
    }
    Arrays.fill(sums, 0, left, 0);
  }

  /** Excludes the blocks of a group that were scored; returns the highest bound of the others. */
  private int close(int group) {
    int highest = -1;
    for (int block = 0; block < Postings.BLOCKS; block++) {
      int[] place = bounds[block & 3];
      int quad = group * Postings.QUADS + block / 4;
      if ((scored >>> block & 1) != 0) {
        place[quad] = -1;
      }
      highest = Math.max(highest, place[quad]);
    }
    return highest;
  }

  private void offer(int groupStart, int stripStart) {
    for (int place = stripStart; place < stripStart + Postings.STRIP; place++) {
      if (sums[place] >= best.minimum() && documents.allows(groupStart + place)) {
        best.offer(sums[place], documents.number(groupStart + place));
      }
    }
  }

  /** The blocks of a group whose bound is high enough, a bit each. */
  private long openBlocks(int group, long needed) {
    int least = (int) Math.min(needed, Integer.MAX_VALUE) - 1; // negative least - bound: open
    int[] a = bounds[0];
    int[] b = bounds[1];
    int[] c = bounds[2];
    int[] d = bounds[3];
    long blocks = 0;
    for (int i = Postings.QUADS - 1; i >= 0; i--) {
      int quad = group * Postings.QUADS + i;
      int open = (least - a[quad]) >>> 31 | (least - b[quad]) >>> 31 << 1 | (least - c[quad]) >>> 31 << 2
          | (least - d[quad]) >>> 31 << 3;
      blocks = blocks << 4 | open;
    }
    return blocks;
  }

  /**
   * Sums the scores in those strips of some blocks whose bound is high enough; the sums of other strips
   * stay incomplete.
   *
   * @return the blocks that have such strips, a bit each
   */
  private long addUp(int group, long blocks) {
    Arrays.fill(stripBounds, 0);
    Arrays.fill(strips, 15);
    longCount = 0;
    addTerms(group, 0, heavy, blocks);
    long open = openStrips(group, blocks, heavy < count ? lightBounds : null);
    if (open != 0 && heavy < count) {
      addTerms(group, heavy, count, open);
      open = openStrips(group, open, null);
    }
    for (int from = 0; from < longCount && open != 0; from += TERMS) {
      for (int i = from; i < Math.min(longCount, from + TERMS); i++) {
        collectRuns(longTerms[i], group, open);
      }
      runs.addTo(sums, tops, terms, boosts);
      open = openStrips(group, open, null);
    }
    return open;
  }

  /** Adds up short terms among some in a group, and raises the bounds of strips by the others. */
  private void addTerms(int group, int first, int last, long blocks) {
    int longest = SHORT * Long.bitCount(blocks);
    int before = longCount;
    fetch(group, first, last, longest);
    addShort(group, first, last, longest);
    for (long open = blocks; open != 0; open &= open - 1) {
      findTops(Long.numberOfTrailingZeros(open));
    }
    for (int i = before; i < longCount; i++) {
      addStripBounds(terms[longTerms[i]], group, blocks, boosts[longTerms[i]]);
    }
  }

  /** Adds up short terms among some in a group, and collects the others. */
  private void addShort(int group, int first, int last, int longest) {
    for (int i = first; i < last; i++) {
      int[] all = triples(i, group, longest);
      if (all != null) {
        triples.add(all, boosts[i]);
      }
    }
    triples.moveTo(sums);
    for (int i = first; i < last; i++) {
      if (triples(i, group, longest) != null) {
        continue;
      }
      int start = terms[i].start(group);
      int end = terms[i].end(group);
      if (end - start > longest) {
        longTerms[longCount++] = i;
      } else {
        add(terms[i].postings, start, end, boosts[i], sums);
      }
    }
  }

  /** Starts to fetch what is read of some terms in a group first: of short ones all, of long ones records. */
  private void fetch(int group, int first, int last, int longest) {
    for (int i = first; i < last; i++) {
      int start = terms[i].start(group);
      int end = terms[i].end(group);
      int[] all = triples(i, group, longest);
      if (all != null) {
        runs.fetch(all, 0, all.length);
      } else if (end - start > longest) {
        int records = terms[i].records(group);
        runs.fetch(terms[i].records, records, records + Postings.BLOCKS);
      } else {
        runs.fetch(terms[i].postings, start, end);
      }
    }
  }

  /** A term's triples in a group, if it has them and adding them is faster than looking up the blocks. */
  private int[] triples(int term, int group, int longest) {
    return longest < Postings.FULL ? null : terms[term].triples(group);
  }

  private static void add(int[] postings, int from, int to, int boost, int[] sums) {
    for (int i = from; i < to; i++) {
      int posting = postings[i];
      sums[posting & sums.length - 1] += boost * (posting >>> Postings.GROUP_BITS);
    }
  }

  /** Finds the highest sum of each strip of a block: four chains, which the processor runs in parallel. */
  private void findTops(int block) {
    int[] sums = this.sums;
    int start = block * Postings.BLOCK;
    int a = 0;
    int b = 0;
    int c = 0;
    int d = 0;
    for (int place = start; place < start + Postings.STRIP; place++) {
      a = Math.max(a, sums[place]);
      b = Math.max(b, sums[place + Postings.STRIP]);
      c = Math.max(c, sums[place + 2 * Postings.STRIP]);
      d = Math.max(d, sums[place + 3 * Postings.STRIP]);
    }
    if (alpha < 1) { // strips' own would skip more, but find less of the k best in the same time
      a = b = c = d = Math.max(Math.max(a, b), Math.max(c, d));
    }
    tops[block * 4] = a;
    tops[block * 4 + 1] = b;
    tops[block * 4 + 2] = c;
    tops[block * 4 + 3] = d;
  }

  private void addStripBounds(Postings term, int group, long blocks, int boost) {
    int records = term.records(group);
    for (long left = blocks; left != 0; left &= left - 1) {
      int block = Long.numberOfTrailingZeros(left);
      raiseStripBounds(block, (int) term.records[records + block], boost * term.step);
    }
  }

  private void raiseStripBounds(int block, int maxima, int boost) {
    stripBounds[block * 4] += (maxima & 0xff) * boost;
    stripBounds[block * 4 + 1] += (maxima >>> 8 & 0xff) * boost;
    stripBounds[block * 4 + 2] += (maxima >>> 16 & 0xff) * boost;
    stripBounds[block * 4 + 3] += (maxima >>> 24) * boost;
  }

  /**
   * Closes strips whose bound has become too low; returns the blocks that still have open ones.
   *
   * @param more what terms that are in neither the sums nor the strips' bounds add at most in each block, as
   *     in bounds; null: there are none
   */
  private long openStrips(int group, long blocks, int[][] more) {
    long open = 0;
    for (long left = blocks; left != 0; left &= left - 1) {
      int block = Long.numberOfTrailingZeros(left);
      int bound = more == null ? 0 : more[block & 3][group * Postings.QUADS + block / 4];
      strips[block] &= (reaches(block * 4, bound) ? 1 : 0) | (reaches(block * 4 + 1, bound) ? 2 : 0)
          | (reaches(block * 4 + 2, bound) ? 4 : 0) | (reaches(block * 4 + 3, bound) ? 8 : 0);
      if (strips[block] != 0) {
        open |= 1L << block;
      }
    }
    return open;
  }

  private boolean reaches(int strip, int bound) {
    return stripBounds[strip] + bound >= needed(tops[strip]);
  }

  /** Collects the postings of a term in the open strips, and subtracts the term from the bounds. */
  private void collectRuns(int number, int group, long blocks) {
    Postings term = terms[number];
    int records = term.records(group);
    for (long left = blocks; left != 0; left &= left - 1) {
      int block = Long.numberOfTrailingZeros(left);
      long record = term.records[records + block];
      if (record == 0) {
        continue;
      }
      raiseStripBounds(block, (int) record, -boosts[number] * term.step);
      int counts = (int) (record >>> 44);
      // a byte for each strip: number of the block's postings up to the strip's end
      long ends = (counts & 31 | (counts & 31 << 5) << 3 | (counts & 31 << 10) << 6 | (counts >>> 15) << 24)
          * 0x01010101L;
      int first = term.start(group) + (int) (record >>> 32 & 0xfff);
      int low = Integer.numberOfTrailingZeros(strips[block]);
      int high = 31 - Integer.numberOfLeadingZeros(strips[block]);
      int from = first + (int) (ends << 8 >>> low * 8 & 0xff);
      int to = first + (int) (ends >>> high * 8 & 0xff);
      runs.collect(number, term.postings, from, to, block);
    }
  }

  private static int max(int[] values, int from, int count) {
    int max = Integer.MIN_VALUE;
    for (int i = from; i < from + count; i++) {
      max = Math.max(max, values[i]);
    }
    return max;
  }

  private static int argmax(int[] values, int count) {
    int best = 0;
    for (int i = 1; i < count; i++) {
      best = values[i] > values[best] ? i : best;
    }
    return best;
  }
}
