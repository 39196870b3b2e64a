"""One segment of a log and its files: what is written to it, and what is served of it.

Start with ``segment`` (a ``.log`` file and its indexes) and ``segments`` (all of a log, in order). ``segment_files``
opens, syncs and renames the files; ``cleaned_segment`` is one that compaction writes. ``slicing`` gives a piece of a
file to send, of bytes that ``trust`` vouches for. It imports ``log/files`` only, and knows no log and no log dir.
"""
