package impact;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexCommit;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.NoMergePolicy;
import org.apache.lucene.index.SegmentReader;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.FilterDirectory;
import org.apache.lucene.store.IOContext;
import org.apache.lucene.store.IndexInput;
import org.apache.lucene.util.IOUtils;

/**
 * A folder whose files are compared with their checksums before a search believes them: small ones when
 * they are opened, large ones block by block, as they are read.
 *
 * <p>A commit holds the checksums of the blocks in its user data, which Lucene reads and checks as a whole.
 * Those of older versions have none: their large files are read as they are.
 */
public final class CheckedDirectory extends FilterDirectory {
  private static final String SUMS = "blocks of "; // a file, as a key of the user data
  private static final long SMALL = 1 << 20; // bytes of a file

  private final Map<String, byte[]> sums = new ConcurrentHashMap<>();

  CheckedDirectory(Path path) throws IOException {
    super(FSDirectory.open(path));
  }

  /** The user data that a writer's next commit needs for large files; of those in one before, the same. */
  static Map<String, String> sums(IndexWriter writer, Map<String, String> before) throws IOException {
    Map<String, String> data = new HashMap<>();
    try (DirectoryReader all = DirectoryReader.open(writer)) {
      for (LeafReaderContext leaf : all.leaves()) {
        for (String file : ((SegmentReader) leaf.reader()).getSegmentInfo().files()) {
          String known = before.get(SUMS + file);
          if (known != null) {
            data.put(SUMS + file, known);
          } else if (writer.getDirectory().fileLength(file) > SMALL) {
            try (IndexInput input = writer.getDirectory().openInput(file, IOContext.DEFAULT)) {
              data.put(SUMS + file, Blocks.text(Blocks.of(input)));
            }
          }
        }
      }
    }
    return data;
  }

  /** Adds the checksums to the newest commit of an index that another writer has made. */
  public static void addSums(byte[] path) throws IOException {
    IndexWriterConfig config = new IndexWriterConfig()
                                   .setOpenMode(IndexWriterConfig.OpenMode.APPEND)
                                   .setMergePolicy(NoMergePolicy.INSTANCE);
    try (Directory directory = FSDirectory.open(Packed.path(path));
        IndexWriter writer = new IndexWriter(directory, config)) {
      Map<String, String> data = sums(writer, Map.of());
      if (!data.isEmpty()) {
        writer.setLiveCommitData(data.entrySet());
      }
    }
  }

  /** A commit, see Commits.find, whose checksums are known from now on. */
  IndexCommit find(String name) throws IOException {
    IndexCommit commit = Commits.find(this, name);
    commit.getUserData().forEach((key, text) -> {
      if (key.startsWith(SUMS)) {
        sums.put(key.substring(SUMS.length()), Blocks.read(text));
      }
    });
    return commit;
  }

  /** Lets Anserini's searcher, whose class javac 17 cannot read, read an index through this. */
  @SuppressWarnings("resource") // the searcher closes it
  public static void open(Object searcher, byte[] path) throws IOException, ReflectiveOperationException {
    Field reader = searcher.getClass().getDeclaredField("reader");
    reader.setAccessible(true);
    ((IndexReader) reader.get(searcher)).close();
    reader.set(searcher, DirectoryReader.open(new CheckedDirectory(Packed.path(path)).find("")));
  }

  @Override
  public IndexInput openInput(String name, IOContext context) throws IOException {
    IndexInput input = in.openInput(name, context);
    try {
      if (input.length() <= SMALL) {
        Blocks.of(input);
        return input;
      }
      byte[] known = sums.get(name);
      return known == null ? input : new CheckedInput(name, input, new Blocks(input, known), 0);
    } catch (Throwable error) {
      IOUtils.closeWhileHandlingException(input);
      throw error;
    }
  }
}
