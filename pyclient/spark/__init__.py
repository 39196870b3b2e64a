"""The PySpark data source ``pybroker``: ``spark.read``, ``readStream``, ``write`` and ``writeStream``.

    spark.readStream.format("pybroker").options(subscribe="flights", **{"kafka.bootstrap.servers": "localhost:9092"})

The names of options, the columns and the offsets in a checkpoint are those of Spark's ``kafka``. There
is no jar: ``pyspark_pybroker``, a top-level module, is where PySpark finds it.

``data_source`` puts ``options`` (a table), ``source`` and ``sink`` together. ``api`` is what the installed
version of PySpark offers. Nothing else of ``pyclient`` imports this.
"""
