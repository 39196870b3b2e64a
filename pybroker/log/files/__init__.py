"""The files of a log dir, one format a file: indexes, checkpoints, ``meta.properties``; and the storage under them.

Start with ``storage``: all access to files goes through it, so that tests can fail it, fill it and cut its power.
``file_cache`` bounds how many are open; ``index_file`` is what all indexes share. Each format is a module that is named
after its file. It imports nothing else of ``log/``.
"""
