"""Compaction: which log is next, one pass over it, and the threads that do it."""
