"""What users do with Kafka, a file for each kind: topics, producers, consumers, groups, transactions, files, tools.

Start with ``test_topics``. A scenario is written once and runs with every client of ``drivers``; a name such as
``test_s41_…`` belongs to that row of the mission (``report/rows.json``). Several brokers are in ``cluster``.
It imports ``drivers``, ``harness`` and ``data``.
"""
