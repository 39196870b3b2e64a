from types import TracebackType

class HeldSignals:
    """``with held_signals`` delays guarded SIGINT, SIGTERM and SIGALRM to the end of the outermost block. It is for the
    main thread, because Python runs handlers only there.
    """

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

held_signals: HeldSignals

def guard() -> None:
    """Makes it possible to hold signals with Python handlers. Call it again after setting another handler."""

def are_held() -> bool:
    """Returns True while guarded signals are delayed."""

def forget() -> None:
    """Releases all holds in a forked child, which does not have the thread that held the signals."""

def readable(fd: int, timeout_ms: int) -> bool:
    """Returns True if the socket has something to read, or has ended, within ``timeout_ms``."""
