package impact;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.store.AlreadyClosedException;
import org.apache.lucene.store.Directory;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.IntsRefBuilder;

/**
 * Answers batches of queries on one index; thread-safe.
 *
 * <p>What Python calls is static, because pyjnius keeps the object of an instance method where all
 * threads share it: a call in one thread may reach the object of another.
 */
public final class Searcher {
  private final BytesRef[] words;
  private final CheckedDirectory files;
  private final Directory directory; // these files, or some of them
  private final Memory memory;
  private final Queue<Query> idle;
  private final boolean held;
  private volatile Snapshot snapshot;

  /** Opens a commit, see Commits.find, without some segments, whose names have blanks in between. */
  public Searcher(byte[] path, byte[] commit, byte[] wordBlock, byte[] wordEnds, byte[] leftOut)
      throws IOException {
    words = Packed.strings(wordBlock, wordEnds);
    String named = Packed.string(commit);
    files = new CheckedDirectory(Packed.path(path));
    directory = leftOut.length == 0 ? files : Integrity.without(files, named, Packed.string(leftOut));
    memory = new Memory(Runtime.getRuntime().maxMemory() / 2);
    idle = new ConcurrentLinkedQueue<>();
    held = false;
    DirectoryReader reader =
        DirectoryReader.open(leftOut.length == 0 ? files.find(named) : Commits.find(directory, ""));
    snapshot = new Snapshot(reader, null, words, memory);
  }

  private Searcher(Searcher of, Snapshot acquired) {
    words = of.words;
    files = of.files;
    directory = of.directory;
    memory = of.memory;
    idle = of.idle;
    held = true;
    snapshot = acquired;
  }

  /** A searcher as it is now: it stays open, and the same, until it is closed itself, once. */
  public static Searcher hold(Searcher searcher) {
    return new Searcher(searcher, searcher.acquire());
  }

  /**
   * The number of live documents; of postings, with those of deleted documents until a merge; and of
   * documents with the deleted ones, which are numbered from 0.
   */
  public static long[] counts(Searcher searcher) throws IOException {
    DirectoryReader current = searcher.acquire().reader;
    try {
      return new long[] {current.numDocs(), current.getSumDocFreq(Writer.CONTENTS), current.maxDoc()};
    } finally {
      current.decRef();
    }
  }

  /** The ids of the live documents, packed as in Ids.live. */
  public static byte[] ids(Searcher searcher) throws IOException {
    DirectoryReader current = searcher.acquire().reader;
    try {
      return Ids.live(current);
    } finally {
      current.decRef();
    }
  }

  /** Moves to a commit, see Commits.find; returns whether it is another one. */
  public static boolean refresh(Searcher searcher, byte[] commit) throws IOException {
    return searcher.moveTo(commit);
  }

  public static void close(Searcher searcher) throws IOException {
    searcher.release();
  }

  private synchronized boolean moveTo(byte[] commit) throws IOException {
    Snapshot old = snapshot;
    DirectoryReader newer = DirectoryReader.openIfChanged(old.reader, files.find(Packed.string(commit)));
    if (newer == null) {
      return false;
    }
    snapshot = new Snapshot(newer, old, words, memory);
    old.reader.close(); // running searches have their own reference
    return true;
  }

  private synchronized void release() throws IOException {
    if (held) {
      snapshot.reader.decRef();
      return;
    }
    snapshot.reader.close();
    directory.close();
  }

  /** The number of the live document with each id, or -1. */
  public static int[] find(Searcher searcher, byte[] idBlock, byte[] idEnds) throws IOException {
    DirectoryReader current = searcher.acquire().reader;
    try {
      return Ids.find(current, Packed.strings(idBlock, idEnds));
    } finally {
      current.decRef();
    }
  }

  /** The documents that have at least one of some words; see DocumentSet. */
  public static byte[] holding(Searcher searcher, byte[] terms) throws IOException {
    Snapshot current = searcher.acquire();
    try {
      return DocumentSet.holding(current, Packed.ints(terms));
    } finally {
      current.reader.decRef();
    }
  }

  /** The documents that one search or many may find, from a bit each; see DocumentSet. */
  public static DocumentSet allow(Searcher searcher, byte[] allowed, boolean forMany) throws IOException {
    Snapshot current = searcher.acquire();
    try {
      return new DocumentSet(current, allowed, forMany);
    } finally {
      current.reader.decRef();
    }
  }

  /** In how many documents each word is, with deleted ones until a merge (int32). */
  public static byte[] frequencies(Searcher searcher) throws IOException {
    Snapshot current = searcher.acquire();
    try {
      int[] counts = new int[searcher.words.length];
      for (Segment segment : current.segments) {
        for (int word = 0; word < counts.length; word++) {
          TermsEnum term = segment.seek(word);
          counts[word] += term == null ? 0 : term.docFreq();
        }
      }
      ByteBuffer out = Packed.buffer(counts.length * Integer.BYTES);
      out.asIntBuffer().put(counts);
      return out.array();
    } finally {
      current.reader.decRef();
    }
  }

  /**
   * Answers some queries.
   *
   * @param packed the queries, see Queries.read
   * @param allowed the documents that may be found; null: all
   * @return number of hits of each query (int32), then for all hits the scores (int64), the ends of the
   *     ids in the block (int32), and the block of ids (UTF-8); nothing if the queries are no valid matrix
   */
  public static byte[] search(Searcher searcher, byte[] packed, int count, int k, int threads, double alpha,
      DocumentSet allowed) throws Exception {
    Queries queries = Queries.read(packed, count, searcher.words.length);
    if (queries == null) {
      return new byte[0];
    }
    Snapshot current = searcher.acquire();
    try {
      if (allowed != null) {
        allowed.check(current);
      }
      Batch batch = new Batch(current, searcher.idle, queries, k, alpha, allowed);
      run(batch, Math.min(threads, count));
      return batch.pack();
    } finally {
      current.reader.decRef();
    }
  }

  /**
   * The weights of some words in some documents.
   *
   * @return int32: the document number of each id (-1: no such id), then a triple for
   *     every posting: position of the id, position of the word, weight
   */
  public static byte[] weights(Searcher searcher, byte[] idBlock, byte[] idEnds, byte[] terms)
      throws IOException {
    IntsRefBuilder out = new IntsRefBuilder();
    DirectoryReader current = searcher.acquire().reader;
    try {
      int[] documents = Ids.find(current, Packed.strings(idBlock, idEnds));
      for (int document : documents) {
        out.append(document);
      }
      for (LeafReaderContext leaf : current.leaves()) {
        int[] rows = rowsIn(leaf, documents);
        if (rows.length > 0) {
          searcher.leafWeights(leaf, rows, documents, Packed.ints(terms), out);
        }
      }
    } finally {
      current.decRef();
    }
    ByteBuffer bytes = Packed.buffer(out.length() * Integer.BYTES);
    bytes.asIntBuffer().put(out.ints(), 0, out.length());
    return bytes.array();
  }

  private void leafWeights(LeafReaderContext leaf, int[] rows, int[] documents, int[] terms,
      IntsRefBuilder out) throws IOException {
    Terms contents = leaf.reader().terms(Writer.CONTENTS);
    if (contents == null) {
      return;
    }
    TermsEnum term = contents.iterator();
    PostingsEnum postings = null;
    for (int position = 0; position < terms.length; position++) {
      if (!term.seekExact(words[terms[position]])) {
        continue;
      }
      postings = term.postings(postings, PostingsEnum.FREQS);
      for (int row : rows) {
        int doc = documents[row] - leaf.docBase;
        if (postings.docID() < doc) {
          postings.advance(doc);
        }
        if (postings.docID() == doc) {
          out.append(row);
          out.append(position);
          out.append(postings.freq());
        }
      }
    }
  }

  /** The positions in documents of those that are in a segment, sorted by document. */
  private static int[] rowsIn(LeafReaderContext leaf, int[] documents) {
    long[] order = new long[documents.length];
    int count = 0;
    for (int row = 0; row < documents.length; row++) {
      int doc = documents[row] - leaf.docBase;
      if (documents[row] >= 0 && doc >= 0 && doc < leaf.reader().maxDoc()) {
        order[count++] = ((long) doc << 32) | row;
      }
    }
    Arrays.sort(order, 0, count);
    int[] rows = new int[count];
    for (int i = 0; i < count; i++) {
      rows[i] = (int) order[i];
    }
    return rows;
  }

  private Snapshot acquire() {
    while (true) {
      Snapshot current = snapshot;
      if (current.reader.tryIncRef()) {
        return current;
      }
      if (current == snapshot) {
        throw new AlreadyClosedException("the searcher is closed");
      }
    }
  }

  private static void run(Callable<Void> worker, int threads) throws Exception {
    if (threads <= 1) {
      worker.call();
      return;
    }
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<Future<Void>> running = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        running.add(pool.submit(worker));
      }
      for (Future<Void> one : running) {
        one.get();
      }
    } catch (ExecutionException failure) {
      throw failure.getCause() instanceof Exception cause ? cause : failure;
    } finally {
      pool.shutdown();
    }
  }
}
