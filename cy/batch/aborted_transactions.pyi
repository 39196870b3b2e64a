from typing import final

@final
class AbortedTransactions:
    """The aborted transactions of a log, from the concatenated ``.txnindex`` entries of its segments."""

    def __init__(self, entries: bytes) -> None:
        """Raises ``ValueError`` if ``entries`` do not end with a whole entry."""
    def take_kept(self) -> bytes:
        """Returns the entries whose markers were kept since the last call, for the index of the new segment."""
