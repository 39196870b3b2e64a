"""Data that tests write: a real data set, batches made by hand, zip bombs, compacted topics."""
