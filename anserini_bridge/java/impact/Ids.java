package impact;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.MultiBits;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.ReaderUtil;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.BytesRef;

/** Translates ids to document numbers and back. */
final class Ids {
  private Ids() {}

  /** The number of the live document with each id, or -1. */
  static int[] find(DirectoryReader reader, BytesRef[] ids) throws IOException {
    int[] documents = new int[ids.length];
    Arrays.fill(documents, -1);
    for (LeafReaderContext leaf : reader.leaves()) {
      Terms terms = leaf.reader().terms(Writer.ID);
      if (terms == null) {
        continue;
      }
      TermsEnum term = terms.iterator();
      PostingsEnum postings = null;
      Bits live = leaf.reader().getLiveDocs();
      for (int i = 0; i < ids.length; i++) {
        if (!term.seekExact(ids[i])) {
          continue;
        }
        postings = term.postings(postings, PostingsEnum.NONE);
        for (int doc = postings.nextDoc(); doc != PostingsEnum.NO_MORE_DOCS; doc = postings.nextDoc()) {
          if (live == null || live.get(doc)) {
            documents[i] = leaf.docBase + doc;
          }
        }
      }
    }
    return documents;
  }

  /** The id of each document, in the given order; doc values can only be read in document order. */
  static byte[][] read(DirectoryReader reader, int[] documents) throws IOException {
    long[] order = new long[documents.length];
    for (int i = 0; i < documents.length; i++) {
      order[i] = ((long) documents[i] << 32) | i;
    }
    Arrays.sort(order);
    byte[][] ids = new byte[documents.length][];
    List<LeafReaderContext> leaves = reader.leaves();
    LeafReaderContext leaf = null;
    BinaryDocValues values = null;
    for (long entry : order) {
      int doc = (int) (entry >>> 32);
      if (leaf == null || doc >= leaf.docBase + leaf.reader().maxDoc()) {
        leaf = leaves.get(ReaderUtil.subIndex(doc, leaves));
        values = leaf.reader().getBinaryDocValues(Writer.ID);
      }
      values.advanceExact(doc - leaf.docBase);
      BytesRef id = values.binaryValue();
      ids[(int) entry] = Arrays.copyOfRange(id.bytes, id.offset, id.offset + id.length);
    }
    return ids;
  }

  /** The ids of a segment's live documents. */
  static BytesRef[] of(LeafReader segment) throws IOException {
    BytesRef[] ids = new BytesRef[segment.numDocs()];
    BinaryDocValues values = segment.getBinaryDocValues(Writer.ID);
    Bits live = segment.getLiveDocs();
    for (int document = 0, count = 0; document < segment.maxDoc(); document++) {
      if (live == null || live.get(document)) {
        values.advanceExact(document);
        ids[count++] = BytesRef.deepCopyOf(values.binaryValue());
      }
    }
    return ids;
  }

  /**
   * The ids of the live documents.
   *
   * @return the number of ids, the ends of the ids in the block (both int32), and the block
   *     of ids (UTF-8)
   */
  static byte[] live(DirectoryReader reader) throws IOException {
    int[] documents = new int[reader.numDocs()];
    Bits live = MultiBits.getLiveDocs(reader);
    for (int doc = 0, count = 0; doc < reader.maxDoc(); doc++) {
      if (live == null || live.get(doc)) {
        documents[count++] = doc;
      }
    }
    byte[][] ids = read(reader, documents);
    int length = 0;
    for (byte[] id : ids) {
      length = Math.addExact(length, id.length);
    }
    ByteBuffer out = Packed.buffer((1 + ids.length) * Integer.BYTES + length);
    out.putInt(ids.length);
    int end = 0;
    for (byte[] id : ids) {
      end += id.length;
      out.putInt(end);
    }
    for (byte[] id : ids) {
      out.put(id);
    }
    return out.array();
  }
}
