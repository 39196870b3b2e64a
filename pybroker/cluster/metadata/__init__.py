"""The cluster's metadata: the image in memory, and the format of its nodes and journal in the store.

Start with ``image``: topics, partitions and brokers at one moment, and the difference between two moments. ``znodes``
has paths and contents of the nodes, ``journal`` one entry for each change. Nothing here does I/O, and it imports no
other room of ``cluster``.
"""
