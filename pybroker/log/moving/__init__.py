"""Moves logs between log dirs (KIP-113), and chooses between two logs with the same name.

Start with ``running_moves``, which knows all moves. ``move`` is one move, and ``log_copy`` copies the log on a pool
thread. ``rivals`` chooses between two folders that a crash has left. This room imports the log and what is below it.
"""
