package impact;

import java.io.IOException;
import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LogByteSizeMergePolicy;
import org.apache.lucene.index.Term;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.BytesRef;

/** Writes rows of a sparse matrix as documents; one thread, so that documents keep their order. */
public final class Writer {
  static final String ID = "id";
  static final String CONTENTS = "contents";
  private static final FieldType IMPACTS = new FieldType();

  static {
    IMPACTS.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    IMPACTS.setOmitNorms(true);
    IMPACTS.freeze();
  }

  private final BytesRef[] words;
  private final Directory directory;
  private final IndexWriter writer;
  private final DirectoryReader before; // the index as found; null for a new one

  public Writer(byte[] path, byte[] wordBlock, byte[] wordEnds, boolean create, double memoryMb)
      throws IOException {
    words = Packed.strings(wordBlock, wordEnds);
    directory = FSDirectory.open(Packed.path(path));
    before = create ? null : DirectoryReader.open(directory);
    IndexWriterConfig config = new IndexWriterConfig();
    config.setOpenMode(
        create ? IndexWriterConfig.OpenMode.CREATE : IndexWriterConfig.OpenMode.APPEND);
    LogByteSizeMergePolicy merges = new LogByteSizeMergePolicy(); // neighbours only: keeps the order
    merges.setNoCFSRatio(0); // else a single segment is written twice
    config.setMergePolicy(merges);
    config.setUseCompoundFile(false);
    config.setRAMBufferSizeMB(memoryMb);
    writer = new IndexWriter(directory, config);
  }

  /** Adds one document a row; with replace, documents of the same id go. */
  public void write(
      byte[] idBlock, byte[] idEnds, byte[] indptr, byte[] indices, byte[] weights, boolean replace)
      throws IOException {
    BytesRef[] ids = Packed.strings(idBlock, idEnds);
    int[] starts = Packed.ints(indptr);
    WeightedTokens tokens =
        new WeightedTokens(words, Packed.ints(indices), Packed.ints(weights));
    for (int row = 0; row < ids.length; row++) {
      Document document = new Document();
      document.add(new StringField(ID, ids[row].utf8ToString(), Field.Store.YES));
      document.add(new BinaryDocValuesField(ID, ids[row]));
      if (starts[row] < starts[row + 1]) {
        tokens.setRange(starts[row], starts[row + 1]);
        document.add(new Field(CONTENTS, tokens, IMPACTS));
      }
      if (replace) {
        writer.updateDocument(new Term(ID, ids[row]), document);
      } else {
        writer.addDocument(document);
      }
    }
  }

  public void delete(byte[] idBlock, byte[] idEnds) throws IOException {
    BytesRef[] ids = Packed.strings(idBlock, idEnds);
    Term[] terms = new Term[ids.length];
    for (int i = 0; i < ids.length; i++) {
      terms[i] = new Term(ID, ids[i]);
    }
    writer.deleteDocuments(terms);
  }

  /** The document number each id had when the index was opened, or -1; empty for a new index. */
  public int[] find(byte[] idBlock, byte[] idEnds) throws IOException {
    return before == null ? new int[0] : Ids.find(before, Packed.strings(idBlock, idEnds));
  }

  /** Makes the changes durable and visible; returns the live documents and the postings. */
  public long[] commit(boolean merge) throws IOException {
    if (merge) {
      writer.forceMerge(1);
    }
    writer.close(); // waits for merges, then commits
    DirectoryReader after = DirectoryReader.open(directory);
    long[] counts = {after.numDocs(), after.getSumDocFreq(CONTENTS)};
    after.close();
    release();
    return counts;
  }

  /** Forgets the changes, or does nothing after a commit. */
  public void rollback() throws IOException {
    try {
      writer.rollback();
    } finally {
      release();
    }
  }

  private void release() throws IOException {
    if (before != null) {
      before.close();
    }
    directory.close();
  }
}
