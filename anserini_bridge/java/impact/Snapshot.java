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
  private static final int SMALL = 8; // times smaller than the largest segment: searched with others

  /** A search first finds good scores in large ones, which lets it skip most of the others. */
  static final Comparator<Documents> LARGE_FIRST = Comparator.comparingInt(some -> - some.count);

  final DirectoryReader reader;
  final List<Segment> segments = new ArrayList<>(); // by their documents' numbers

  final List<Documents> documents;

  private final BytesRef[] words;
  private final Memory memory;

  /** @param before a state whose unpacked segments are reused, or null */
  Snapshot(DirectoryReader reader, Snapshot before, BytesRef[] words, Memory memory) {
    this.reader = reader;
    this.words = words;
    this.memory = memory;
    for (LeafReaderContext leaf : reader.leaves()) {
      Unpacked known = before == null ? null : before.unpacked(leaf);
      segments.add(new Segment(leaf, known == null ? new Unpacked(words, memory, false) : known));
    }
    documents = gather(segments.stream().map(segment -> new Part(segment, segment.live())).toList());
  }

  /** Puts small parts together, so that a search does not begin anew in each. */
  private List<Documents> gather(List<Part> parts) {
    int largest = parts.stream().mapToInt(part -> part.count).max().orElse(0);
    List<Documents> gathered = new ArrayList<>();
    List<Part> small = new ArrayList<>();
    for (Part part : parts) {
      if (part.count < largest / SMALL) {
        small.add(part);
      } else {
        gathered.add(part);
      }
    }
    gathered.sort(LARGE_FIRST);
    if (small.size() > 1) {
      gathered.add(select(small));
    } else {
      gathered.addAll(small);
    }
    return gathered;
  }

  Selection select(List<Part> parts) {
    return new Selection(parts, new Unpacked(words, memory, true));
  }

  /** The position of a document in the order in which documents were added. */
  long order(int document) {
    try {
      return segments.get(ReaderUtil.subIndex(document, reader.leaves())).order(document);
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
