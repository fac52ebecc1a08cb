package impact;

import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.CodecReader;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.FieldInfo;
import org.apache.lucene.index.FilterLeafReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.SlowCodecReaderWrapper;
import org.apache.lucene.index.StoredFieldVisitor;
import org.apache.lucene.index.StoredFields;
import org.apache.lucene.index.Terms;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.BytesRefHash;
import org.apache.lucene.util.ThreadInterruptedException;

/**
 * Presents rows to Lucene as a segment, in a given order, which Lucene adds to an index unchanged. A
 * thread prepares the terms while Lucene writes what comes before them.
 */
final class RowsReader extends FilterLeafReader {
  private final Rows rows;
  private final int[] documents; // the row of each document
  private final BytesRef[] words;
  private final int[] sortedWords;
  private final FieldInfo idField;
  private final FutureTask<Terms> ids = new FutureTask<>(this::idTerms);
  private final FutureTask<Terms> contents = new FutureTask<>(this::contentsTerms);

  private RowsReader(LeafReader template, Rows rows, int[] documents, BytesRef[] words, int[] sortedWords) {
    super(template);
    this.rows = rows;
    this.documents = documents;
    this.words = words;
    this.sortedWords = sortedWords;
    idField = getFieldInfos().fieldInfo(Writer.ID);
  }

  /**
   * A segment that has all fields; readers of rows use its description of the fields.
   *
   * @param major major version of the Lucene that made the index to which rows are added
   */
  static DirectoryReader template(int major) throws IOException {
    FieldType impacts = new FieldType();
    impacts.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    impacts.setOmitNorms(true);
    Document document = new Document();
    document.add(new StringField(Writer.ID, "", Field.Store.YES));
    document.add(new BinaryDocValuesField(Writer.ID, new BytesRef()));
    document.add(new NumericDocValuesField(Writer.ORDER, 0));
    document.add(new Field(Writer.CONTENTS, "", impacts));
    ByteBuffersDirectory memory = new ByteBuffersDirectory();
    IndexWriterConfig config = new IndexWriterConfig().setIndexCreatedVersionMajor(major);
    try (IndexWriter writer = new IndexWriter(memory, config)) {
      writer.addDocument(document);
    }
    return DirectoryReader.open(memory);
  }

  /**
   * @param documents the row of each document
   * @param sortedWords the numbers of the words, sorted by the words' bytes
   */
  static CodecReader of(DirectoryReader template, Rows rows, int[] documents, BytesRef[] words,
      int[] sortedWords) throws IOException {
    LeafReader leaf = template.leaves().get(0).reader();
    RowsReader reader = new RowsReader(leaf, rows, documents, words, sortedWords);
    Thread thread = new Thread(reader::prepareTerms, "terms");
    thread.setDaemon(true);
    thread.start();
    return SlowCodecReaderWrapper.wrap(reader);
  }

  private void prepareTerms() {
    contents.run();
    ids.run();
  }

  @Override
  public int maxDoc() {
    return documents.length;
  }

  @Override
  public int numDocs() {
    return documents.length;
  }

  @Override
  public Terms terms(String field) {
    try {
      return (field.equals(Writer.ID) ? ids : contents).get();
    } catch (InterruptedException interruption) {
      throw new ThreadInterruptedException(interruption);
    } catch (ExecutionException failure) {
      if (failure.getCause() instanceof Error error) { // memory ran out
        throw error;
      }
      throw new IllegalStateException(failure.getCause());
    }
  }

  private Terms idTerms() {
    BytesRefHash ids = new BytesRefHash();
    BytesRef id = new BytesRef();
    int[] documentOf = new int[documents.length];
    for (int document = 0; document < documents.length; document++) {
      documentOf[documents[document]] = document;
    }
    for (int row = 0; row < documents.length; row++) { // as they lie in memory
      rows.id(row, id);
      ids.add(id); // gets the next number, as ids are distinct
    }
    int[] sorted = Arrays.copyOf(ids.sort(), documents.length);
    int[] postings = new int[documents.length];
    Arrays.setAll(postings, i -> documentOf[sorted[i]]);
    int[] starts = new int[documents.length + 1];
    Arrays.setAll(starts, i -> i);
    return new MemoryTerms(i -> ids.get(sorted[i], id), starts, postings, 0, null);
  }

  /** The CSR matrix by columns. */
  private Terms contentsTerms() {
    int postings = rows.end(rows.size() - 1);
    int[] next = new int[words.length];
    for (int i = 0; i < postings; i++) {
      next[rows.word(i)]++;
    }
    int[] starts = new int[words.length + 1];
    int[] used = new int[words.length];
    int count = 0;
    for (int word : sortedWords) {
      if (next[word] > 0) {
        used[count] = word;
        starts[count + 1] = starts[count] + next[word];
        next[word] = starts[count++];
      }
    }
    int weightBits = Integer.SIZE - Rows.bits(documents.length);
    int most = (1 << weightBits) - 1; // or more
    int[] columns = new int[postings];
    for (int document = 0; document < documents.length; document++) {
      int row = documents[document];
      for (int i = rows.start(row); i < rows.end(row); i++) {
        columns[next[rows.word(i)]++] = document << weightBits | Math.min(rows.weight(i), most);
      }
    }
    return new MemoryTerms(
        i -> words[used[i]], Arrays.copyOf(starts, count + 1), columns, weightBits, (i, posting) -> {
          int weight = columns[posting] & most;
          return weight < most ? weight : rows.weight(documents[columns[posting] >>> weightBits], used[i]);
        });
  }

  @Override
  public BinaryDocValues getBinaryDocValues(String field) {
    return new Ids();
  }

  @Override
  public NumericDocValues getNumericDocValues(String field) {
    return new Orders();
  }

  @Override
  public StoredFields storedFields() {
    BytesRef id = new BytesRef();
    return new StoredFields() {
      @Override
      public void document(int document, StoredFieldVisitor visitor) throws IOException {
        if (visitor.needsField(idField) == StoredFieldVisitor.Status.YES) {
          rows.id(documents[document], id);
          visitor.stringField(idField, id.utf8ToString());
        }
      }
    };
  }

  @Override
  public CacheHelper getCoreCacheHelper() {
    return null;
  }

  @Override
  public CacheHelper getReaderCacheHelper() {
    return null;
  }

  private final class Ids extends BinaryDocValues {
    private final BytesRef id = new BytesRef();
    private int document = -1;

    @Override
    public BytesRef binaryValue() {
      rows.id(documents[document], id);
      return id;
    }

    @Override
    public boolean advanceExact(int target) {
      document = target;
      return true;
    }

    @Override
    public int docID() {
      return document;
    }

    @Override
    public int nextDoc() {
      return advance(document + 1);
    }

    @Override
    public int advance(int target) {
      return document = target < documents.length ? target : NO_MORE_DOCS;
    }

    @Override
    public long cost() {
      return documents.length;
    }
  }

  private final class Orders extends NumericDocValues {
    private int document = -1;

    @Override
    public long longValue() {
      return rows.order(documents[document]);
    }

    @Override
    public boolean advanceExact(int target) {
      document = target;
      return true;
    }

    @Override
    public int docID() {
      return document;
    }

    @Override
    public int nextDoc() {
      return advance(document + 1);
    }

    @Override
    public int advance(int target) {
      return document = target < documents.length ? target : NO_MORE_DOCS;
    }

    @Override
    public long cost() {
      return documents.length;
    }
  }
}
