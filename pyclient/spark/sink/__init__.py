"""The sink: what ``df.write`` and ``df.writeStream`` of ``format("pybroker")`` do.

``rows`` knows the columns and hands Arrow batches to a producer, ``settings`` its settings; ``writer`` is what
PySpark calls, ``checkpoint`` and ``driver`` tell it which query it is of, and in which JVM, where Spark does not;
``producers`` are those that a process keeps.
Exactly once is ``exactly_once`` (the protocol, without I/O: start there), ``ledger`` (its log),
``transactions`` (of one query: their names, which are open, how they end) and ``commits`` (what the driver
and the tasks do with these).
"""
