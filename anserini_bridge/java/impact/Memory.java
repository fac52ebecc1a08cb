package impact;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.Predicate;

/**
 * Limits the memory of unpacked postings: when it is full, copies of others are dropped, and if that is not
 * enough, all. They are unpacked again later.
 */
final class Memory {
  private final long limit;
  private long used; // at least
  private final Set<Unpacked> holders = Collections.newSetFromMap(new WeakHashMap<>());

  /** @param limit bytes */
  Memory(long limit) {
    this.limit = limit;
  }

  /** Counts what is held until nothing else refers to it. */
  synchronized void hold(Unpacked holder) {
    holders.add(holder);
  }

  synchronized void take(long bytes) {
    used += bytes;
    if (used > limit) { // some may have gone
      drop(holder -> false, bytes);
    }
    if (used > limit) {
      drop(holder -> holder.isCopy, bytes);
    }
    if (used > limit) {
      drop(holder -> true, bytes);
    }
  }

  private void drop(Predicate<Unpacked> these, long taken) {
    used = taken;
    for (Unpacked holder : holders) {
      if (these.test(holder)) {
        holder.clear();
      }
      used += holder.bytes();
    }
  }
}
