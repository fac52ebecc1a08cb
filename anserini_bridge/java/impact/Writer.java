package impact;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.lucene.index.ConcurrentMergeScheduler;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexCommit;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.LogByteSizeMergePolicy;
import org.apache.lucene.index.SegmentInfos;
import org.apache.lucene.index.Term;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.Version;

/**
 * Writes rows of a sparse matrix as documents. A segment has as many as fit into the memory, similar
 * ones side by side; the field "order" stores the order in which documents were added.
 *
 * <p>Not thread-safe; it starts threads that write segments. What Python calls is static, see
 * Searcher.
 */
public final class Writer {
  static final String ID = "id";
  static final String ORDER = "order";
  static final String CONTENTS = "contents";
  private static final String NEXT_ORDER = "next order";
  private static final int MANY = 3; // segments: an update leaves fewer as they are
  private static final int LARGE = 32; // times as many documents
  private static final double WRITTEN = 0.75; // share of the memory that a segment takes while written

  private final BytesRef[] words;
  private final int[] sortedWords;
  private final boolean reorder;
  private final long memory; // bytes of a segment that is written, and of the rows of the next
  private final Directory directory;
  private final Commits commits;
  private final ConcurrentMergeScheduler merging = new ConcurrentMergeScheduler() {
    @Override
    protected void handleMergeException(Throwable exc) {
      // its thread would print it; segments that could not be merged stay as they are
    }
  };
  private final IndexWriter lucene;
  private final DirectoryReader before; // the index before this session; null for a new one
  private final DirectoryReader template;
  private Rows rows;
  private long nextOrder;
  private FutureTask<Void> segment; // that is being written; null: none

  /**
   * Opens a commit, see Commits.find, to change it.
   *
   * @param leftOut names of segments that the next commit will not have, with blanks in between
   */
  public Writer(byte[] path, byte[] named, byte[] wordBlock, byte[] wordEnds, boolean create, boolean reorder,
      double memoryMb, byte[] leftOut) throws IOException {
    words = Packed.strings(wordBlock, wordEnds);
    sortedWords = Packed.sorted(words);
    this.reorder = reorder;
    memory = (long) (memoryMb * 1e6);
    rows = new Rows(words.length);
    directory = FSDirectory.open(Packed.path(path));
    IndexCommit old = create ? null : Commits.find(directory, Packed.string(named));
    IndexCommit start = old;
    if (leftOut.length > 0) {
      String fewer =
          Integrity.commitWithout(directory, old.getSegmentsFileName(), Packed.string(leftOut), directory);
      start = Commits.find(directory, fewer);
    }
    before = create ? null : DirectoryReader.open(start);
    int major = Version.LATEST.major;
    if (!create) { // Lucene only merges segments of the same major version
      major = SegmentInfos.readCommit(directory, start.getSegmentsFileName()).getIndexCreatedVersionMajor();
    }
    template = RowsReader.template(major);
    IndexWriterConfig config = new IndexWriterConfig();
    config.setOpenMode(create ? IndexWriterConfig.OpenMode.CREATE : IndexWriterConfig.OpenMode.APPEND);
    LogByteSizeMergePolicy merges = new LogByteSizeMergePolicy(); // of neighbours: keeps clusters
    merges.setNoCFSRatio(0); // otherwise a single segment is written twice
    config.setMergePolicy(merges);
    config.setUseCompoundFile(false);
    commits = new Commits(create ? null : old.getSegmentsFileName());
    config.setIndexDeletionPolicy(commits);
    config.setIndexCommit(start);
    config.setMergeScheduler(merging);
    lucene = new IndexWriter(directory, config);
    if (!create) {
      nextOrder = Long.parseLong(before.getIndexCommit().getUserData().get(NEXT_ORDER));
    }
  }

  /** Adds a document per row; with replace, documents with the same ids are deleted, but see flush. */
  public static void write(Writer writer, byte[] idBlock, byte[] idEnds, byte[] indptr, byte[] indices,
      byte[] weights, boolean replace) throws Exception {
    BytesRef[] ids = Packed.strings(idBlock, idEnds);
    int[] starts = Packed.ints(indptr);
    int[] terms = Packed.ints(indices);
    int[] values = Packed.ints(weights);
    if (replace) {
      writer.lucene.deleteDocuments(idTerms(ids));
    }
    for (int row = 0; row < ids.length; row++) {
      writer.add(ids[row], writer.nextOrder++, terms, values, starts[row], starts[row + 1]);
    }
  }

  /** Deletes documents, but see flush. */
  public static void delete(Writer writer, byte[] idBlock, byte[] idEnds) throws IOException {
    writer.lucene.deleteDocuments(idTerms(Packed.strings(idBlock, idEnds)));
  }

  /** Must be called before documents are replaced or deleted that were added in this session. */
  public static void flush(Writer writer) throws Exception {
    writer.startSegment();
    writer.finishSegment();
  }

  /** The document number of each id when the index was opened, or -1; empty for a new index. */
  public static int[] find(Writer writer, byte[] idBlock, byte[] idEnds) throws IOException {
    return writer.before == null ? new int[0] : Ids.find(writer.before, Packed.strings(idBlock, idEnds));
  }

  /** Rewrites all documents, without the deleted ones. */
  public static void optimize(Writer writer) throws Exception {
    flush(writer);
    try (DirectoryReader all = DirectoryReader.open(writer.lucene)) {
      writer.lucene.deleteAll();
      readAll(writer, all.leaves().stream().map(LeafReaderContext::reader).toList());
    }
  }

  /**
   * Writes segments anew as one, in which similar documents are side by side: many updates would leave
   * many segments, and a search begins anew in each. The smallest are taken, then each that is less than
   * LARGE times as large as those together, and fits into the memory with them; so the largest segment is
   * written anew, too, but seldom.
   */
  private static void join(Writer writer) throws Exception {
    try (DirectoryReader all = DirectoryReader.open(writer.lucene)) {
      List<LeafReader> segments = all.leaves()
                                      .stream()
                                      .map(LeafReaderContext::reader)
                                      .sorted(Comparator.comparingInt(LeafReader::numDocs))
                                      .toList();
      List<LeafReader> taken = new ArrayList<>();
      long documents = 0;
      long bytes = 0;
      for (LeafReader segment : segments) {
        bytes += SegmentRows.bytes(segment);
        boolean isLarge = documents > 0 && segment.numDocs() >= LARGE * documents;
        if (isLarge || bytes >= WRITTEN * writer.memory) {
          break;
        }
        taken.add(segment);
        documents += segment.numDocs();
      }
      if (taken.size() < MANY) {
        return;
      }
      for (LeafReader segment : taken) { // before they are added again
        writer.lucene.deleteDocuments(idTerms(Ids.of(segment)));
      }
      readAll(writer, taken);
    }
  }

  private static void readAll(Writer writer, List<LeafReader> segments) throws Exception {
    for (LeafReader segment : segments) {
      SegmentRows.read(segment, writer.words, writer.sortedWords, writer.memory / 8, writer::add);
    }
    flush(writer);
  }

  /**
   * Makes the changes durable, as a commit beside the one before; finish must follow.
   *
   * @return the commit's name, and after blanks the number of its live documents and of its postings
   */
  public static String commit(Writer writer) throws Exception {
    flush(writer);
    if (writer.before != null) {
      join(writer);
    }
    IndexWriter lucene = writer.lucene;
    lucene.flush();
    lucene.maybeMerge();
    writer.merging.sync();
    Map<String, String> known =
        writer.before == null ? Map.of() : writer.before.getIndexCommit().getUserData();
    Map<String, String> data = CheckedDirectory.sums(lucene, known);
    data.put(NEXT_ORDER, Long.toString(writer.nextOrder));
    lucene.setLiveCommitData(data.entrySet());
    lucene.commit();
    String name = SegmentInfos.getLastCommitSegmentsFileName(writer.directory);
    try (DirectoryReader after = DirectoryReader.open(Commits.find(writer.directory, name))) {
      return name + " " + after.numDocs() + " " + after.getSumDocFreq(CONTENTS);
    }
  }

  /** Deletes the commit before, as another one is now named in its place. */
  public static void finish(Writer writer) throws IOException {
    writer.commits.name(SegmentInfos.getLastCommitSegmentsFileName(writer.directory));
    writer.lucene.deleteUnusedFiles();
  }

  /**
   * Throws the error that closed Lucene's writer, if one did: errors happen in threads, and a call may
   * meet no more than their consequences.
   */
  public static void check(Writer writer) throws Throwable {
    Throwable error = writer.lucene.getTragicException();
    if (error != null) {
      throw error;
    }
  }

  /** Ends the session; what was not committed is undone. */
  public static void close(Writer writer) throws IOException {
    try {
      writer.lucene.rollback();
      if (writer.segment != null) {
        writer.segment.cancel(true);
      }
    } finally {
      writer.release();
    }
  }

  private void add(BytesRef id, long order, int[] terms, int[] weights, int from, int to) throws Exception {
    if (rows.size() > 0
        && (rows.bytes() + rows.bytesToWrite() >= WRITTEN * memory
            || !rows.hasRoomFor(to - from, id.length))) {
      startSegment();
    } else if (segment != null && rows.bytes() >= (1 - WRITTEN) * memory) {
      finishSegment();
    }
    rows.add(id, order, terms, weights, from, to);
  }

  /** Hands the rows to a thread that writes them, as soon as those before are written. */
  private void startSegment() throws Exception {
    finishSegment();
    if (rows.size() == 0) {
      return;
    }
    Rows full = rows;
    rows = new Rows(words.length);
    segment = new FutureTask<>(() -> {
      lucene.addIndexes(RowsReader.of(template, full, order(full), words, sortedWords));
      return null;
    });
    Thread thread = new Thread(segment, "segment");
    thread.setDaemon(true);
    thread.start();
  }

  /** Waits for the segment that is being written. */
  private void finishSegment() throws Exception {
    if (segment == null) {
      return;
    }
    try {
      segment.get();
    } catch (ExecutionException failure) {
      throw failure.getCause() instanceof Exception cause ? cause : failure;
    } finally {
      segment = null;
    }
  }

  private int[] order(Rows full) {
    if (reorder) {
      return Clustering.order(full, words.length);
    }
    int[] order = new int[full.size()];
    Arrays.setAll(order, row -> row);
    return order;
  }

  private static Term[] idTerms(BytesRef[] ids) {
    Term[] terms = new Term[ids.length];
    for (int i = 0; i < ids.length; i++) {
      terms[i] = new Term(ID, ids[i]);
    }
    return terms;
  }

  private void release() throws IOException {
    template.close();
    if (before != null) {
      before.close();
    }
    directory.close();
  }
}
