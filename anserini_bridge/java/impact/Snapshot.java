package impact;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.ReaderUtil;
import org.apache.lucene.util.BytesRef;

/** A state of the index: Lucene's reader, and its segments with their unpacked postings. */
final class Snapshot {
  final DirectoryReader reader;

  /** Large ones first: they set a threshold that lets the search skip most of the others. */
  final List<Segment> segments = new ArrayList<>();

  private final List<Segment> byDocument;

  /** @param before a state whose unpacked segments are reused, or null */
  Snapshot(DirectoryReader reader, Snapshot before, BytesRef[] words, Memory memory) {
    this.reader = reader;
    for (LeafReaderContext leaf : reader.leaves()) {
      Unpacked known = before == null ? null : before.unpacked(leaf);
      segments.add(new Segment(leaf, known == null ? new Unpacked(words, memory) : known));
    }
    byDocument = List.copyOf(segments);
    segments.sort(Comparator.comparingInt(segment -> -segment.maxDoc));
    memory.hold(segments.stream().map(Segment::unpacked).toList());
  }

  /** The position of a document in the order in which documents were added. */
  long order(int document) {
    try {
      return byDocument.get(ReaderUtil.subIndex(document, reader.leaves())).order(document);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private Unpacked unpacked(LeafReaderContext leaf) {
    for (Segment segment : segments) {
      if (segment.key() == leaf.reader().getCoreCacheHelper().getKey()) {
        return segment.unpacked();
      }
    }
    return null;
  }
}
