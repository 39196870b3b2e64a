"""The PySpark data source ``pybroker``: ``spark.read``, ``readStream``, ``write`` and ``writeStream``.

    spark.readStream.format("pybroker").options(subscribe="flights", **{"kafka.bootstrap.servers": "localhost:9092"})

The names of options, the columns and the offsets in a checkpoint are those of Spark's ``kafka``. It needs no jar:
PySpark finds it by ``pyspark_pybroker``, a top-level module.

``data_source`` joins ``options`` (a table), ``source`` and ``sink``. ``api`` knows what the installed version of
PySpark offers. No other part of ``pyclient`` imports this package.
"""
