"""What the cluster consists of: the image in memory, the nodes and the journal that hold it in the store."""
