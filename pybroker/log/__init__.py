"""The log of a partition's replica, in Kafka's own files.

Start with ``log`` (one log: append, read, truncate) and ``manager`` (all logs of a broker). Below the modules here are
``files`` (one format a file, and the storage under all of them), ``producers``, ``segment`` and ``dirs``; above them
``removal``, ``startup``, ``moving`` and ``compaction``. It imports only one other room of the broker, ``config``. It
knows neither what topics mean nor that there are other brokers.
"""
