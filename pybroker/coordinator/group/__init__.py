"""Consumer groups and committed offsets: the shards of ``__consumer_offsets``."""
