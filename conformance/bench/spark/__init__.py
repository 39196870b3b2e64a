"""Spark on our broker, by ``format("pybroker")`` and by Spark's own connector."""
