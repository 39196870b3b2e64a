"""Pipelines that users build between topics and other systems: databases, warehouse tables, Kafka Connect, Kafka
Streams.

Start with ``test_pipelines``, which runs the programs of ``examples/``. ``test_database`` writes each record once into
PostgreSQL and SQLite. ``test_plugin_connect`` and ``test_plugin_streams`` run Kafka's own programs. Those of Kafka's
system tests are in ``conformance/applications``.
"""
