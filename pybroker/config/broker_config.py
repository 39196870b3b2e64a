"""The configuration of one broker: layers over the table of keys.

The layers, the strongest first: dynamic for this broker, dynamic for the cluster, static, default. Among static
settings, ``--set`` is stronger than the environment, and that is stronger than the file. The two dynamic layers change
while the broker runs. After each change, listeners are called with the names of the keys whose value has changed.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from pybroker.config import sources
from pybroker.config.keys.broker_keys import BROKER_KEYS
from pybroker.config.keys.foreign_keys import is_foreign
from pybroker.config.keys.inert_keys import INERT_KEYS
from pybroker.config.keys.key import ConfigError, Key, Scope, Value, format_value
from pybroker.config.keys.sasl_keys import SASL_KEYS
from pybroker.config.keys.sasl_keys import key_of_listener as sasl_key_of_listener
from pybroker.config.keys.tls_keys import LISTENER_PREFIX, TLS_KEYS, key_of_listener, of_listener
from pybroker.config.sources import Setting

KEYS: dict[str, Key] = {key.name: key for key in (*BROKER_KEYS, *TLS_KEYS, *SASL_KEYS, *INERT_KEYS)}

_FREE_PREFIXES = ("rlmm.config.", "rsm.config.", "sasl.", "ssl.")

Listener = Callable[[frozenset[str]], None]


class Source(IntEnum):
    """The source of a value; the number is ``config_source`` of DescribeConfigs (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_GROUP = 8


class Origin(NamedTuple):
    """The value of a key in one layer, as text."""

    name: str
    text: str | None
    source: Source


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns ``: did you mean log.segment.bytes?`` if a known name is similar, else nothing."""
    import difflib  # the import takes 3 ms and is needed for errors only

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else ""


def key_of(name: str) -> Key | None:
    """Returns the row of a key, which may be one for a single listener; None if there is no such key."""
    return KEYS.get(name) or key_of_listener(name) or sasl_key_of_listener(name) or _limit_of_listener(name)


def _limit_of_listener(name: str) -> Key | None:
    """Returns the row of ``listener.name.<name>.max.connections`` or the like, None for other names."""
    for limit in ("max.connections", "max.connection.creation.rate"):
        listener = name.removeprefix(LISTENER_PREFIX).removesuffix(f".{limit}")
        if listener and name == f"{LISTENER_PREFIX}{listener}.{limit}":
            return KEYS[limit]._replace(name=name, default=None, scope=Scope.PER_BROKER)
    return None


def is_known(name: str) -> bool:
    return name in KEYS or is_ignored(name)


def is_ignored(name: str) -> bool:
    """Returns True for settings of plug-ins and of single listeners, whose names no table can list."""
    return name.startswith(LISTENER_PREFIX) or name.startswith(_FREE_PREFIXES)


def unused_of(known: Mapping[str, Setting], given: Mapping[str, Setting]) -> tuple[str, ...]:
    """Returns the keys in ``known`` without meaning: ZooKeeper's, left in a file for KRaft, unless they were ``given``.
    """
    is_left_over = "process.roles" in known and "zookeeper.connect" in known and "zookeeper.connect" not in given
    return ("zookeeper.connect",) if is_left_over else ()


class BrokerConfig:
    """The settings of a broker: ``config["log.segment.bytes"]`` is the effective typed value."""

    def __init__(
        self,
        settings: Mapping[str, Setting | str | int | float | bool] | None = None,
        errors: list[ConfigError] | None = None,
    ):
        self._static_text: dict[str, Setting] = {}
        self.ignored: dict[str, Setting] = {}
        """Settings of plug-ins, and of single listeners except those of TLS and SASL."""
        self.foreign: dict[str, Setting] = {}
        """Keys in files that are not Kafka's."""
        self.unused: dict[str, Setting] = {}
        """Settings that another setting makes meaningless."""
        self._static = self._parse_all(settings or {}, self._static_text, errors)
        self._broker: dict[str, Value] = {}
        self._cluster: dict[str, Value] = {}
        self._values: dict[str, Value] = {}
        self._listeners: list[Listener] = []
        self.derived: dict[str, Any] = {}
        self._resolve()

    @classmethod
    def load(
        cls,
        arguments: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        file: str | None = None,
        base: str | None = None,
        source: str = "--set",
        errors: list[ConfigError] | None = None,
    ) -> BrokerConfig:
        """Reads the configuration from four sources.

        ``arguments`` (the texts of ``--set``) override the ``environment`` (by default the process's). That overrides
        ``file``, and ``file`` overrides ``base``, which is a file too. ``source`` is the name of ``arguments`` in
        errors.

        Raises ConfigError, which names all unknown keys and bad values. If ``errors`` is given, appends each error to
        that list instead, and omits the key. It ignores unknown variables, because clients share the environment. It
        also ignores keys in files that belong to other programs (``foreign_keys``).
        """
        variables = sources.from_environment(os.environ if environment is None else environment)
        filed = {**(sources.from_file(base) if base else {}), **(sources.from_file(file) if file else {})}
        foreign = {name: filed.pop(name) for name in tuple(filed) if not is_known(name) and is_foreign(name, KEYS)}
        known = filed | {name: setting for name, setting in variables.items() if is_known(name)}
        given = sources.from_arguments(arguments, source)
        unused = {name: known.pop(name) for name in unused_of(known, given)}
        config = cls(known | given, errors)
        config.foreign, config.unused = foreign, unused
        return config

    def _parse_all(
        self, settings: Mapping[str, Setting | Any], texts: dict[str, Setting], errors: list[ConfigError] | None
    ) -> dict[str, Value]:
        values: dict[str, Value] = {}
        found: list[ConfigError] = [] if errors is None else errors
        for name, given in settings.items():
            if isinstance(given, Setting):
                setting = given
            else:
                setting = Setting(format_value(given) or "", "")
            try:
                key = self.key(name, setting.source)
                if key is None:
                    self.ignored[name] = setting
                else:
                    values[name] = key.parse(setting.text, setting.source)
                    texts[name] = setting
            except ConfigError as error:
                found.append(error)
        if errors is None and found:
            raise ConfigError("; ".join(map(str, found)))
        return values

    @staticmethod
    def key(name: str, source: str = "") -> Key | None:
        """Returns the row of the key ``name``, None for a plug-in's key. Raises ConfigError for an unknown name."""
        key = key_of(name)
        if key is None and not is_ignored(name):
            where = f" (from {source})" if source else ""
            if not sources.is_name(name):
                raise ConfigError(f"a key is unknown; it is not shown, because it may be part of a secret{where}")
            raise ConfigError(f"{name} is unknown{suggestion(name, KEYS)}{where}")
        return key

    def _resolve(self) -> None:
        self._values = {
            **{name: key.default for name, key in KEYS.items()},
            **self._static,
            **self._cluster,
            **self._broker,
        }
        self.derived = {}

    def __getitem__(self, name: str) -> Any:
        """Returns the effective value, typed (LIST: tuple of str; null: None). Raises KeyError for an unknown key."""
        return self._values[name]

    def of_listener(self, listener: str, name: str) -> Any:
        """Returns the value of a key for a listener: the listener's own, else that for all; None if neither is set."""
        own = of_listener(listener, name)
        if own in self._values:
            return self._values[own]
        return self._values[name] if self.is_set(name) else None

    def has_own(self, listener: str, name: str) -> bool:
        """Returns whether a key has a value for that listener only."""
        return of_listener(listener, name) in self._values

    @property
    def keys_of_listeners(self) -> list[Key]:
        """The rows of the keys that are set for single listeners."""
        return [key for name in self._values if name not in KEYS and (key := key_of(name)) is not None]

    def is_set(self, name: str) -> bool:
        """Returns whether any layer but the default sets the key."""
        return name in self._static or name in self._cluster or name in self._broker

    def static(self, name: str) -> Any:
        """Returns the typed value without the dynamic layers."""
        return self._static.get(name, KEYS[name].default)

    def where(self, name: str) -> str:
        """Returns the source of the static value in words, or nothing if there is none."""
        found = self._static_text.get(name) or self.ignored.get(name)
        return found.source if found else ""

    def given(self) -> dict[str, str]:
        """Returns the settings of arguments, environment and files as text, without plug-ins' keys."""
        return {name: setting.text for name, setting in self._static_text.items()}

    def source(self, name: str) -> Source:
        """Returns the layer of the effective value."""
        return self.origins(name)[0].source

    def origins(self, name: str) -> list[Origin]:
        """Returns every layer's value of the key, the effective one first."""
        layers = (
            (self._broker, Source.DYNAMIC_BROKER),
            (self._cluster, Source.DYNAMIC_DEFAULT_BROKER),
            (self._static, Source.STATIC_BROKER),
        )
        found = [
            Origin(name, format_value(layer[name]), source)
            for layer, source in layers
            if name in layer
        ]
        default = KEYS[name].default if name in KEYS else None
        if default is not None or not found:
            found.append(Origin(name, format_value(default), Source.DEFAULT))
        return found

    def override(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> frozenset[str]:
        """Replaces both dynamic layers by these texts and calls the listeners.

        Returns the names of the keys whose value has changed. A value that does not parse is ignored: a broker must not
        stop because another version stored such a value.
        """
        before = self._values
        self._broker, self._cluster = _parse_stored(broker), _parse_stored(cluster)
        self._resolve()
        names = before.keys() | self._values.keys()
        changed = frozenset(name for name in names if before.get(name) != self._values.get(name))
        if changed:
            for listener in tuple(self._listeners):
                listener(changed)
        return changed

    def overridden(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> BrokerConfig:
        """Returns this configuration with other dynamic layers, without calling listeners."""
        other = copy.copy(self)
        other._listeners = []
        other.override(broker, cluster)
        return other

    def on_change(self, listener: Listener) -> None:
        """Calls ``listener(names)`` after each change of effective values."""
        self._listeners.append(listener)

    @property
    def node_id(self) -> int | None:
        """node.id, else broker.id unless that is negative, else None."""
        node_id: int | None = self["node.id"]
        if node_id is None and self["broker.id"] >= 0:
            return int(self["broker.id"])
        return node_id

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """log.dirs, else log.dir, else an empty tuple. As in Kafka, an extra comma adds no folder."""
        return tuple(filter(None, self["log.dirs"] or self["log.dir"] or ()))


def _parse_stored(texts: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, text in texts.items():
        key = key_of(name)
        if key is None or key.scope is Scope.READ_ONLY:
            continue
        try:
            values[name] = key.parse(text)
        except ConfigError:
            continue
    return values
