"""The transaction coordinator's state machine: one shard per partition of ``__transaction_state``.

Start with ``state`` (which state may follow which) and ``shard``. ``initialising`` gives out epochs and so fences old
producers, ``adding`` and ``ending`` follow the life of a transaction. ``marker_sender`` brings markers to leaders,
``gate`` answers the leaders' question whether a producer may write.
"""
