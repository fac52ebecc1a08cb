package impact;

import java.util.List;

/** Limits the memory of unpacked postings: when it is full, all are dropped, and unpacked again later. */
final class Memory {
  private final long limit;
  private long used;
  private List<Unpacked> holders = List.of();

  /** @param limit bytes */
  Memory(long limit) {
    this.limit = limit;
  }

  synchronized void hold(List<Unpacked> segments) {
    holders = segments;
    used = 0;
    for (Unpacked holder : holders) {
      used += holder.bytes();
    }
  }

  synchronized void take(long bytes) {
    used += bytes;
    if (used > limit) {
      holders.forEach(Unpacked::clear);
      used = bytes;
    }
  }
}
