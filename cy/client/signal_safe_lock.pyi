from types import TracebackType

class SignalSafeLock:
    """``with lock`` admits one thread at a time, which may enter again.

    Guarded signals (``held_signals``) are delayed to the end of the block, so keep the block short.
    """

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
