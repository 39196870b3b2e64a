"""Whole applications that others wrote for Kafka, run on the broker under test: Kafka Streams, Kafka Connect."""
