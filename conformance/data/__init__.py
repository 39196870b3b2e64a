"""What tests write: a real data set, batches by hand, zip bombs, compacted topics."""
