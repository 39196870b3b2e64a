"""A Kafka broker that one can ``pip install``; in tests: ``with pybroker.run() as broker``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.embedded import EmbeddedBroker, run

__all__ = ["EmbeddedBroker", "run"]


def __getattr__(name: str) -> Any:
    """Loads ``pybroker.embedded`` when it is first asked for: a broker process never is."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pybroker import embedded

    return getattr(embedded, name)
