"""The source: implements ``spark.read`` and ``spark.readStream`` for ``format("pybroker")``.

Start with ``stream_source``. The driver's decisions do no I/O: ``offsets``, ``ranges``, ``limits``, ``filters``.
``log_offsets`` asks the brokers, and ``progress`` commits to them. PySpark calls ``batch_reader`` and
``stream_reader``. A task runs ``range_reader``: it reads a range of offsets as Arrow batches with the wanted
``columns`` and ``typed_values``. This package imports the consumer's public names, and the sink does not import it.
"""
