"""The transaction coordinator's state machine: one shard per partition of ``__transaction_state``."""
