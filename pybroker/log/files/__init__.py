"""The files of a log dir, one module per format (indexes, checkpoints, ``meta.properties``), and the storage.

Start with ``storage``: all access to files goes through it, so that tests can make it fail, fill it up and cut its
power. ``file_cache`` limits how many files are open; ``index_file`` is what all indexes share. Each module of a format
is named after its file. This room imports nothing else of ``log/``.
"""
