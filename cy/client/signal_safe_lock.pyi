from types import TracebackType

class SignalSafeLock:
    """``with lock``: one thread at a time, which may enter again. What guarded signals come meanwhile (``held_signals``)
    are met behind the block, which should therefore be short."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
