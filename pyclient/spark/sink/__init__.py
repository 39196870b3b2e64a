"""The sink: what ``df.write`` and ``df.writeStream`` of ``format("pybroker")`` do.

``rows`` knows the columns and hands Arrow batches to a producer, ``settings`` its settings. PySpark calls ``writer``.
Where Spark does not tell the query and its JVM, ``checkpoint`` and ``driver`` find them. ``producers`` are those that a
process keeps. Exactly once begins with ``exactly_once``, the protocol without I/O: start reading there. ``ledger`` is
its log. ``transactions`` has those of one query: their names, which are open, and how they end. ``commits`` is what the
driver and the tasks do with these.
"""
