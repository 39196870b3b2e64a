from types import TracebackType

class HeldSignals:
    """``with held_signals``: SIGINT, SIGTERM and SIGALRM that come meanwhile, and are guarded, are met at
    its end; where it stands in another one, at the end of that. For the main thread, as handlers run nowhere else."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

held_signals: HeldSignals

def guard() -> None:
    """The signals that have handlers of Python can be held from now on. A handler that is set later is
    not guarded until the next call."""

def are_held() -> bool:
    """Whether signals that are guarded wait now."""

def forget() -> None:
    """In a forked child: the thread that held them is not there."""

def readable(fd: int, timeout_ms: int) -> bool:
    """Whether the socket has something to read, or has ended, within so many milliseconds."""
