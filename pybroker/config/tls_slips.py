"""Finds keys of TLS that would have no effect because of a typing error in their name or listener.

If the broker ignored such keys, it would be open, or accept other clients than intended. So it does not start with
them, and refuses an administrator's change that has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pybroker.config.broker_config import KEYS, BrokerConfig, suggestion
from pybroker.config.keys.key import ConfigError
from pybroker.config.keys.tls_keys import LISTENER_PREFIX, TLS_KEYS, of_listener, split
from pybroker.config.listeners import BY_TLS, controllers, listeners

_FAMILY: Final = "ssl."
_OF_TLS: Final = {key.name: key for key in TLS_KEYS}
_OF_SSL: Final = {name for name in KEYS if name.startswith(_FAMILY)}
_ASKING: Final = ("required", "requested")


def check(config: BrokerConfig, dynamic: Mapping[str, str] | None = None) -> None:
    """Raises ConfigError for the first typing error. With ``dynamic``, an administrator's change, checks only that.
    """
    for error in errors_of(config, dynamic):
        raise error


def errors_of(config: BrokerConfig, dynamic: Mapping[str, str] | None = None) -> Iterator[ConfigError]:
    """Yields an error for each typing error; ``dynamic`` is as for ``check``. Raises ConfigError for bad listeners."""
    static = config.given() | {name: setting.text for name, setting in config.ignored.items()}
    texts = static if dynamic is None else dynamic
    names = [name for name in texts if name.startswith((_FAMILY, LISTENER_PREFIX)) and name not in _OF_SSL]
    if not names:
        return
    protocols = {each.listener.lower(): each.security_protocol for each in listeners(config)}
    others = {name.lower() for name in controllers(config)}
    for name in names:
        is_asking = texts[name].strip().lower() in _ASKING
        if complaint := _complaint(name, protocols, others, is_asking=is_asking):
            where = config.where(name) if dynamic is None else ""
            yield ConfigError(f"{name}{f' (from {where})' if where else ''} {complaint}")


def without_effect(config: BrokerConfig) -> Iterator[str]:
    """Yields the TLS keys of listeners without TLS. Raises ConfigError for bad listeners."""
    names = [key.name for key in config.keys_of_listeners if ".ssl." in key.name]
    plain = {each.listener.lower() for each in listeners(config) if not each.is_tls} if names else ()
    yield from (name for name in names if split(name, plain)[0] in plain)


def _complaint(name: str, protocols: dict[str, str], others: Collection[str], *, is_asking: bool) -> str:
    """Returns what is wrong with the key, "" if nothing is. ``others`` are listeners of controllers, which are not
    opened.
    """
    is_strict = is_asking or not BY_TLS.isdisjoint(protocols.values())
    if name.startswith(_FAMILY):
        return f"is unknown{suggestion(name, _OF_SSL)}" if is_strict else ""
    listener, key = split(name, (*protocols, *others))
    if listener in others:
        return ""
    if not key.startswith(_FAMILY):
        is_slip = is_asking or _FAMILY + key in _OF_TLS
        return f"is unknown{suggestion(name, _names(protocols))}" if is_slip and is_strict else ""
    if key in _OF_TLS:
        if listener not in protocols:
            near = suggestion(name, [of_listener(each, key) for each in protocols])
            return f"names no listener; names of listeners are in small letters there{near}"
        if is_asking and protocols[listener] not in BY_TLS:
            reason = f"listener {listener} is {protocols[listener]}"
            return f"has no effect, because {reason}: no client would be asked for a certificate"
        return ""
    return f"is unknown{suggestion(name, _names(protocols))}" if is_strict and key not in _OF_SSL else ""


def _names(protocols: Collection[str]) -> list[str]:
    return [of_listener(each, key) for each in protocols for key in _OF_TLS]
