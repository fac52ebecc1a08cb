package impact;

import java.io.IOException;
import java.util.List;

/** Documents of a segment, in whose numbers. */
final class Part extends Documents {
  final Segment segment;

  /** @param allowed the live documents that a search may find, see Documents; null: all */
  Part(Segment segment, long[] allowed) {
    super(segment.maxDoc, allowed);
    this.segment = segment;
  }

  @Override
  Postings postings(int word) throws IOException {
    return segment.postings(word);
  }

  @Override
  int number(int document) {
    return segment.docBase + document;
  }

  @Override
  List<Part> parts() {
    return List.of(this);
  }
}
