from typing import final

@final
class AbortedTransactions:
    """The aborted transactions of a log, from the concatenated ``.txnindex`` entries of its segments."""

    def __init__(self, entries: bytes) -> None:
        """``ValueError`` where ``entries`` are cut."""
    def take_kept(self) -> bytes:
        """The entries whose markers stayed since the last call: the index of the new segment."""
