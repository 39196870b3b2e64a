"""Whole applications that others wrote for Kafka run on the broker under test: Kafka Streams, Kafka Connect.

Start with ``process``: an application as a process that is started, watched and killed.
"""
