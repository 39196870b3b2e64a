"""One segment of a log and its files: appends to it, and serves reads from it.

Start with ``segment`` (a ``.log`` file and its indexes) and ``segments`` (all segments of a log, in order).
``segment_files`` opens, syncs and renames the files; ``cleaned_segment`` is a segment that compaction writes.
``slicing`` returns a piece of a file to send, whose CRCs were checked (``trust``). This room imports only
``log/files``; it knows no log and no log dir.
"""
