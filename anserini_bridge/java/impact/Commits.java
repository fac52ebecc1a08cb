package impact;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.List;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexCommit;
import org.apache.lucene.index.IndexDeletionPolicy;
import org.apache.lucene.index.SegmentInfos;
import org.apache.lucene.store.Directory;

/**
 * Which commits a writer keeps. The index's own file names the commit that is searched: the one before
 * stays until another is named, and what a killed writer committed without naming it is deleted.
 */
final class Commits extends IndexDeletionPolicy {
  private String named;

  /** @param named the name of the commit that is searched; null: there is none yet */
  Commits(String named) {
    this.named = named;
  }

  /** The commit with a name; the newest one if the name is empty, as in indexes of older versions. */
  static IndexCommit find(Directory directory, String name) throws IOException {
    String wanted = name.isEmpty() ? SegmentInfos.getLastCommitSegmentsFileName(directory) : name;
    for (IndexCommit commit : DirectoryReader.listCommits(directory)) {
      if (commit.getSegmentsFileName().equals(wanted)) {
        return commit;
      }
    }
    throw new NoSuchFileException(wanted);
  }

  void name(String commit) {
    named = commit;
  }

  @Override
  public void onInit(List<? extends IndexCommit> commits) {
    keep(commits, null);
  }

  @Override
  public void onCommit(List<? extends IndexCommit> commits) {
    IndexCommit newest = commits.get(commits.size() - 1);
    keep(commits, newest.getSegmentsFileName().equals(named) ? null : newest);
  }

  /** Deletes all but the named commit and another one. */
  private void keep(List<? extends IndexCommit> commits, IndexCommit other) {
    for (IndexCommit commit : commits) {
      if (commit != other && !commit.getSegmentsFileName().equals(named)) {
        commit.delete();
      }
    }
  }
}
