"""How the threads of an application use the loop of the blocking face. Start with ``runner``, which has that loop.

A ``call`` is work of the loop for which a thread waits. By the ``lease`` a waiting thread does the loop's work itself.
The ``bell`` wakes a waiting thread.
"""
