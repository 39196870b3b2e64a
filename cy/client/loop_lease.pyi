class LoopLease:
    """The place of an event loop's thread. Who has it may do the loop's work between ``enter`` and
    ``leave``.
    """

    tenant: int
    """The thread that has it, 0: the loop's own."""
    holds_signals: bool
    """Signals wait while it is used: for a tenant that is the main thread."""
    @property
    def acting(self) -> int:
        """The tenant while it uses it, else 0."""
    @property
    def uses(self) -> int:
        """How often it was used."""
    @property
    def is_mine(self) -> bool:
        """The caller has it."""
    def enter(self) -> bool:
        """Whether the caller may do the loop's work from now on, until ``leave``. Raises what the
        handlers of signals raise that have just come."""
    def leave(self) -> None:
        """The end of what ``enter`` began."""
    def vacate(self) -> None:
        """Waits until the place is no longer used; no thread has it then."""
