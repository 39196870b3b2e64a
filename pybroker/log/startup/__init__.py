"""Opens a broker's logs at its start, and closes them at a stop, which prepares the next start.

Start with ``opening``: all logs of a log dir. ``reopening`` opens each as ``closing`` has left it at a clean stop. If
it cannot, ``recovery`` opens it, and repairs it after a crash. The table ``dirs/folder_states`` tells what a start does
with each name that it finds. This room may import all of ``log/`` except the manager, moves and compaction.
"""
