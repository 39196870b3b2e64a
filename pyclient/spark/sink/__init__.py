"""The sink: implements ``df.write`` and ``df.writeStream`` for ``format("pybroker")``.

PySpark calls ``writer``. ``rows`` knows the columns and passes Arrow batches to a producer; ``settings`` has the
producer's settings. If Spark does not name the query and its JVM, ``checkpoint`` and ``driver`` find them.
``producers`` has the producers that a process keeps. For exactly once, start with ``exactly_once``, the protocol
without I/O. ``ledger`` is its log. ``transactions`` has the transactions of one query: their names, which ones are
open, and how they end. ``commits`` does the work of driver and tasks with these.
"""
