"""What users do with Kafka: ``producers``, ``consumers``, ``pipelines``, files on disk (``storage``), several brokers.

Start with ``test_topics``. A scenario is written once and runs with every client of ``drivers``. A name such as
``test_s41_…`` shows that row of the mission (``report/rows.json``). ``cluster`` has the scenarios of several brokers.
This package imports ``drivers``, ``harness`` and ``data``.
"""
