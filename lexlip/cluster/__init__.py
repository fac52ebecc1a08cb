"""Many machines, by Ray: photos are indexed in shards, and shards are searched."""
