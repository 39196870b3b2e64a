"""PySpark with ``format("pybroker")``, which it finds without registration: batch, streams, kills."""
