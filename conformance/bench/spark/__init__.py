"""``format("pybroker")`` against Spark's own connector for Kafka."""
