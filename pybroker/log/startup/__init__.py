"""The start of a broker's logs, and the stop that prepares the next one.

Start with ``opening``: all logs of a log dir. Each is opened by ``reopening``, as ``closing`` has left it at a clean
stop, or else by ``recovery``, which mends what a crash has torn. What a start does with each name that it finds is a
table, ``dirs/folder_states``. It may import all of ``log/`` but the manager, moves and compaction.
"""
