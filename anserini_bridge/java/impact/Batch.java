package impact;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;

/** Queries and their answers; each thread that calls it takes the next query in turn. */
final class Batch implements Callable<Void> {
  private final Snapshot snapshot;
  private final Queue<Query> idle; // whose arrays are reused
  private final Queries queries;
  private final int k;
  private final double alpha;
  private final DocumentSet allowed; // null: all documents
  private final long[][] scores;
  private final byte[][][] ids;
  private final AtomicInteger next = new AtomicInteger();

  Batch(Snapshot snapshot, Queue<Query> idle, Queries queries, int k, double alpha, DocumentSet allowed) {
    this.snapshot = snapshot;
    this.idle = idle;
    this.queries = queries;
    this.k = k;
    this.alpha = alpha;
    this.allowed = allowed;
    scores = new long[queries.count][];
    ids = new byte[queries.count][][];
  }

  @Override
  public Void call() throws IOException {
    Query known = idle.poll();
    Query query = known == null ? new Query() : known;
    for (int q = next.getAndIncrement(); q < scores.length; q = next.getAndIncrement()) {
      TopK best = query.search(snapshot, queries, q, k, alpha, allowed);
      int[] documents = new int[best.size()];
      scores[q] = new long[best.size()];
      for (int rank = 0; rank < best.size(); rank++) {
        documents[rank] = best.document(rank);
        scores[q][rank] = best.score(rank);
      }
      ids[q] = Ids.read(snapshot.reader, documents);
    }
    idle.add(query);
    return null;
  }

  byte[] pack() {
    int hits = 0;
    int length = 0;
    for (byte[][] row : ids) {
      hits += row.length;
      for (byte[] id : row) {
        length += id.length;
      }
    }
    ByteBuffer out =
        Packed.buffer(scores.length * Integer.BYTES + hits * (Long.BYTES + Integer.BYTES) + length);
    for (long[] row : scores) {
      out.putInt(row.length);
    }
    for (long[] row : scores) {
      for (long score : row) {
        out.putLong(score);
      }
    }
    int end = 0;
    for (byte[][] row : ids) {
      for (byte[] id : row) {
        end += id.length;
        out.putInt(end);
      }
    }
    for (byte[][] row : ids) {
      for (byte[] id : row) {
        out.put(id);
      }
    }
    return out.array();
  }
}
