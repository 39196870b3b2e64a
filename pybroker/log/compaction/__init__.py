"""Compaction: chooses the next log, compacts it in one pass, and runs the threads for that.

Start with ``cleaner``. ``compaction`` is one pass over a log, ``cleanable`` computes how much of it is dirty. The
threads are in ``workers``, and ``throttle`` limits their speed. This room is the top of ``log/``: it may import all of
it, and nothing of ``log/`` imports it.
"""
