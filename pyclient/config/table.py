"""Tables of keys, and the settings of a client that are checked against one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pyclient.config.hints import hint, meant
from pyclient.config.key import HIDDEN, Key
from pyclient.config.security import FUNCTIONS, PROTOCOL
from pyclient.errors import ConfigError
from pyclient.keywords import key_with_dots

Table = Mapping[str, Key]

_tables: dict[str, Table] = {}


def table(clients: str, *parts: tuple[Key, ...]) -> Table:
    """Makes one table of the parts. If a name is in several parts, the last one counts. ``clients`` names the clients
    with these settings.
    """
    made = _tables[clients] = {key.name: key for part in parts for key in part}
    return made


class Config:
    """The valid settings of one client, with all defaults: ``config.linger_ms``, ``config["linger.ms"]``. Immutable.

    ``given`` are the names (with dots) of the settings that were set.
    """

    __slots__ = ("_values", "given")

    def __init__(self, keys: Table, settings: Mapping[str, Any]) -> None:
        values = {name: key.default for name, key in keys.items()}
        for name, value in settings.items():
            values[name] = keys[name].read(value)
        self._values = {_attribute(name): value for name, value in values.items()}
        self.given = frozenset(settings)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no setting {name}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[_attribute(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        names = map(_attribute, sorted(self.given))
        shown = ", ".join(f"{n}={HIDDEN if n in FUNCTIONS else repr(self[n])}" for n in names)
        return f"Config({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._values, self.given)


def _restored(values: dict[str, Any], given: frozenset[str]) -> Config:
    config = Config.__new__(Config)
    config._values, config.given = values, given
    return config


def load(
    keys: Table,
    bootstrap_servers: Any = None,
    config: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Config:
    """Merges the application's settings: the first argument, which counts most, keyword arguments, a mapping.

    Names may have dots or underscores. Raises ConfigError.
    """
    names = {_attribute(name): name for name in keys}
    known: dict[str, Any] = {}
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(f"config={config!r} is not a mapping of settings; topics of a consumer are topics=[…]")
    for part, as_shown in ((config or {}, str), (settings or {}, _attribute)):
        known |= {_known(names, name, as_shown): value for name, value in part.items()}
    if bootstrap_servers is not None:
        _check_first(bootstrap_servers, settings or {})
        known["bootstrap.servers"] = bootstrap_servers
    if not known.get("bootstrap.servers"):
        raise ConfigError("bootstrap.servers is missing: give it as the first argument, 'localhost:9092'")
    protocol = known.get(PROTOCOL.name)
    if isinstance(protocol, str):
        known[PROTOCOL.name] = protocol.strip().upper()  # Kafka takes small letters too
    return Config(keys, known)


def _check_first(given: Any, settings: Mapping[str, Any]) -> None:
    """Raises ConfigError if the first argument is not a list of addresses."""
    if isinstance(given, Mapping):
        raise ConfigError("the first argument is bootstrap.servers: pass a dict of settings as config={…}")
    if not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):
        raise ConfigError(f"the first argument is bootstrap.servers, as 'localhost:9092': it cannot be {given!r}")
    by_name = settings.get("bootstrap_servers", given)
    if by_name != given:
        raise ConfigError(
            f"bootstrap.servers is given twice, {given!r} as the first argument and {by_name!r} by name; "
            "topics of a consumer are topics=[…]"
        )


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _known(names: Mapping[str, str], name: str, as_shown: Callable[[str], str]) -> str:
    """Returns the key of that name. Raises ConfigError with the setting to use instead, or with the most similar name.
    ``as_shown`` gives this name the form of the caller's.
    """
    found = names.get(_attribute(name)) if isinstance(name, str) else None
    if found is not None:
        return found
    dotted = key_with_dots(str(name))
    advice = [each for each in (hint(dotted), _others(names, meant(dotted))) if each]
    if not advice and (similar := difflib.get_close_matches(dotted, names.values(), 1, 0.6)):
        advice.append(f"did you mean {as_shown(similar[0])}?")
    raise ConfigError(f"unknown setting {name!r}" + (f": {', '.join(advice)}" if advice else ""))


def _others(names: Mapping[str, str], key: str) -> str:
    """Returns which clients have a setting, if this one does not."""
    if key in names.values():
        return ""
    owners = [clients for clients, keys in _tables.items() if key in keys]
    return f"a setting of {' and '.join(owners)} only" if owners else ""
