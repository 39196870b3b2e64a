"""How an application's threads use the loop of a blocking client. Start with ``runner``, which has that loop.

A ``call`` is work of the loop for which a thread waits. With the ``lease``, a waiting thread does the loop's work
itself. The ``bell`` wakes a waiting thread.
"""
