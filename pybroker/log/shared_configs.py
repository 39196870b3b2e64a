"""Shares one object among equal configurations: the 10,000 logs of a broker usually have only a few different ones.

A configuration is kept only while something refers to it, because topics' configurations may change very often.

Thread-safety: any thread. Two threads at the same moment may get two equal objects.
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
        """Returns a configuration that equals ``config``, the same object each time."""
        known = self._known.get(config)
        shared = None if known is None else known()
        if shared is None:
            shared = config
            self._known[config] = ref(config)
        return shared
