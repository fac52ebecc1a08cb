package impact;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.lucene.codecs.CodecUtil;
import org.apache.lucene.index.CorruptIndexException;
import org.apache.lucene.index.SegmentCommitInfo;
import org.apache.lucene.index.SegmentInfos;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.FileSwitchDirectory;
import org.apache.lucene.store.IOContext;
import org.apache.lucene.store.IndexInput;

/** Finds damaged files by the checksums at their ends, and leaves out segments of which a file is damaged. */
public final class Integrity {
  private Integrity() {}

  /**
   * The files of a commit, see Commits.find.
   *
   * @return a line for the commit's own file, then one for each segment: its name and its files, with
   *     blanks in between
   */
  public static String files(byte[] path, byte[] commit) throws IOException {
    try (Directory directory = FSDirectory.open(Packed.path(path))) {
      SegmentInfos segments = read(directory, Packed.string(commit));
      List<String> lines = new ArrayList<>(List.of(segments.getSegmentsFileName()));
      for (SegmentCommitInfo segment : segments) {
        lines.add(segment.info.name + " " + String.join(" ", new TreeSet<>(segment.files())));
      }
      return String.join("\n", lines);
    }
  }

  /** Reads all of a file; returns why it is not as Lucene wrote it, and nothing if it is. */
  public static String check(byte[] path, byte[] file) {
    try (Directory directory = FSDirectory.open(Packed.path(path));
        IndexInput input = directory.openInput(Packed.string(file), IOContext.READONCE)) {
      CodecUtil.checksumEntireFile(input);
      return "";
    } catch (CorruptIndexException error) {
      return error.getOriginalMessage();
    } catch (FileNotFoundException | NoSuchFileException error) {
      return "it is missing";
    } catch (IOException | InternalError error) { // the latter if the disk fails under mapped memory
      return "it cannot be read: " + error.getMessage();
    }
  }

  /** A directory for reading, whose only commit is one of another directory without some segments. */
  static Directory without(CheckedDirectory directory, String commit, String names) throws IOException {
    directory.find(commit);
    Directory memory = new ByteBuffersDirectory();
    commitWithout(directory, commit, names, memory);
    return new FileSwitchDirectory(Set.of(""), memory, directory, true); // a commit has no suffix
  }

  /** Writes a commit without some segments, as the next one; returns its name. */
  static String commitWithout(Directory from, String commit, String names, Directory to) throws IOException {
    Set<String> leftOut = Set.of(names.split(" "));
    SegmentInfos segments = read(from, commit);
    for (SegmentCommitInfo segment : List.copyOf(segments.asList())) {
      if (leftOut.contains(segment.info.name)) {
        segments.remove(segment);
      }
    }
    segments.changed();
    segments.commit(to);
    return segments.getSegmentsFileName();
  }

  private static SegmentInfos read(Directory directory, String commit) throws IOException {
    String name = commit.isEmpty() ? SegmentInfos.getLastCommitSegmentsFileName(directory) : commit;
    if (name == null) {
      throw new NoSuchFileException("segments");
    }
    return SegmentInfos.readCommit(directory, name);
  }
}
