"""Compaction: which log is next, one pass over it, and the threads that do it.

Start with ``cleaner``; ``compaction`` is one pass over a log, ``cleanable`` says how much of it is dirty, ``workers``
has the threads and ``throttle`` their speed. It is the top of ``log/`` and may import all of it; nothing of ``log/``
imports it.
"""
