"""Parts of Kafka's scripts: their common options, and parts of the long scripts.

Start with ``options`` (which most scripts take). ``line_reader`` and ``message_formatter`` belong to the console tools,
``client_quotas`` and ``scram_users`` to kafka-configs, ``reset_plans`` to kafka-consumer-groups. This room imports
``cli/common``, and no script.
"""
