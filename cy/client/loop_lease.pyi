class LoopLease:
    """The right to act as an event loop's thread. Its tenant may do the loop's work between ``enter`` and ``leave``."""

    tenant: int
    """The thread that has the lease, 0 for the loop's own."""
    holds_signals: bool
    """True if signals are held while the lease is used: for a tenant that is the main thread."""
    @property
    def acting(self) -> int:
        """The tenant while it uses the lease, else 0."""
    @property
    def uses(self) -> int:
        """How often the lease was used."""
    @property
    def is_mine(self) -> bool:
        """Returns True if the calling thread has the lease."""
    def enter(self) -> bool:
        """Returns True if the caller may do the loop's work until ``leave``.

        Raises what the handlers of signals raise that have just arrived.
        """
    def leave(self) -> None:
        """Ends what ``enter`` began."""
    def vacate(self) -> None:
        """Takes the lease back: waits until it is no longer used. No thread has it then."""
