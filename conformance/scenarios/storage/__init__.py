"""What a broker keeps on its disk, and how: files, indexes, retention, compaction, syncs, damaged bytes.

Start with ``test_storage``, which reads a log's files while the broker serves them. ``test_lookup`` follows an offset
through the indexes, ``test_flushing`` counts system calls. ``files`` reads files and traces calls for all of them. How
crashes leave files is a matter of ``conformance/faults``.
"""
