"""Moves of logs between log dirs (KIP-113), and which log is it where two have one name.

Start with ``running_moves``, the one book of what moves where. ``move`` is one move, ``log_copy`` copies what is old on
a pool thread, ``rivals`` chooses between two folders that a crash has left. It imports the log and what is below it.
"""
