class LoopLease:
    """The right to act as an event loop's thread. The tenant may do the loop's work between ``enter`` and ``leave``."""

    tenant: int
    """The thread that has the lease, 0 for the loop's own."""
    holds_signals: bool
    """True if signals are held while the lease is used, because the tenant is the main thread."""
    @property
    def acting(self) -> int:
        """The tenant while it uses the lease, otherwise 0."""
    @property
    def uses(self) -> int:
        """How often the lease was used."""
    @property
    def is_mine(self) -> bool:
        """Returns True if the calling thread has the lease."""
    def enter(self) -> bool:
        """Returns True if the caller may do the loop's work until ``leave``.

        Raises what the handlers of newly arrived signals raise.
        """
    def leave(self) -> None:
        """Ends what ``enter`` began."""
    def vacate(self) -> None:
        """Takes the lease back and waits until it is no longer used. After that, no thread has it."""
