"""A Kafka broker that you can ``pip install``; in tests: ``with pybroker.run() as broker``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.acl import Acl
    from pybroker.embedded import BrokerFailed, EmbeddedBroker, run

    __version__: str
else:

    def __getattr__(name: str) -> object:
        """Imports ``pybroker.embedded`` when it is first used; a broker process never uses it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "__version__":
            from pybroker.version import version

            return version()
        from pybroker import embedded

        return getattr(embedded, name)


__all__ = ["Acl", "BrokerFailed", "EmbeddedBroker", "__version__", "run"]
