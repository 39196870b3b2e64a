"""One object for equal configurations: 10,000 logs of a broker mostly have a few of them.

A configuration is kept as long as something has it, no longer: a topic's may change without end.

Thread-safety: any thread; two threads that come at the same moment may get two objects that are equal.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary, ref

from pybroker.config.log_config import LogConfig


class SharedConfigs:
    """The configurations of a broker's logs."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[LogConfig, ref[LogConfig]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def one_for(self, config: LogConfig) -> LogConfig:
        """A configuration that equals ``config``, the same object each time."""
        known = self._known.get(config)
        shared = None if known is None else known()
        if shared is None:
            shared = config
            self._known[config] = ref(config)
        return shared
