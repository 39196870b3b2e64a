"""The transaction coordinator's state machine: one shard per partition of ``__transaction_state``.

Start with ``state`` (which state may follow which) and ``shard``. ``initialising`` assigns epochs and so fences old
producers. ``adding`` and ``ending`` handle the other requests of a transaction. ``marker_sender`` sends markers to
leaders. ``gate`` answers leaders that ask whether a producer may write.
"""
