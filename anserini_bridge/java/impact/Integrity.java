package impact;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.lucene.index.SegmentCommitInfo;
import org.apache.lucene.index.SegmentInfos;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.FileSwitchDirectory;

/** Lists the files of a commit, and leaves out segments of which a file is damaged. */
public final class Integrity {
  private Integrity() {}

  /** The names of the files of a commit, see Commits.find; one in each line. */
  public static String files(byte[] path, byte[] commit) throws IOException {
    try (Directory directory = FSDirectory.open(Packed.path(path))) {
      return String.join("\n", new TreeSet<>(read(directory, Packed.string(commit)).files(true)));
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
