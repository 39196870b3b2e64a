"""The source: what ``spark.read`` and ``spark.readStream`` of ``format("pybroker")`` do.

What the driver decides does no I/O: ``offsets``, ``ranges``, ``limits``, ``filters``; ``log_offsets`` asks the brokers,
and ``progress`` tells them. Start with ``stream_source``. What PySpark calls is ``batch_reader`` and ``stream_reader``.
A task is ``range_reader``: a range of offsets as Arrow batches, with the ``columns`` and ``typed_values`` that were
asked for. It imports the consumer's public names; the sink knows nothing of it.
"""
