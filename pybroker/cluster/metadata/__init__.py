"""What the cluster consists of: the image in memory, and the nodes and the journal that hold it in the store.

Start with ``image``: topics, partitions and brokers at one moment, and the difference between two moments. ``znodes``
has paths and contents of the nodes, ``journal`` one entry for each change. Nothing here performs anything: it imports
no other room of ``cluster``.
"""
