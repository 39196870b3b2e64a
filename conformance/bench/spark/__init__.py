"""``format("pybroker")`` against Spark's own connector for Kafka: the same queries on the same topics.

Start with ``suite`` if there is one case to add. It runs in an environment that has PySpark and no other client.
"""
