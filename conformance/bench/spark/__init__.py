"""``format("pybroker")`` against Spark's own connector for Kafka: the same queries on the same topics.

Start with ``suite`` to add a case. It runs in an environment with PySpark and no other client.
"""
