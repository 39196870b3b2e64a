"""What producers do: acks, batches, codecs, idempotence, transactions.

Start with ``test_producer`` (foreign clients) and ``test_sdk_producer`` (ours, read by foreign ones).
``test_duplicates`` loses acks on purpose. ``test_transactions`` runs with every client of ``drivers``. Transactions
under kills are in ``cluster`` and in ``conformance/faults``.
"""
