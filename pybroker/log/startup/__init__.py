"""Opens a broker's logs at its start, and closes them at a stop so that the next start is quick.

Start with ``opening``: all logs of a log dir. ``reopening`` opens a log as ``closing`` has left it at a clean stop. If
it cannot, ``recovery`` opens the log, and repairs it after a crash. The table ``dirs/folder_states`` tells what a start
does with each name that it finds. This room may import all of ``log/`` except the manager, moves and compaction.
"""
