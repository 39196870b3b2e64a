"""Makes the log lines of a start about settings that are accepted but have no effect, one line per reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from pybroker.config import rights, sources, tls_slips
from pybroker.config.broker_config import KEYS, BrokerConfig, is_known, suggestion
from pybroker.config.keys.inert_keys import UNMET
from pybroker.config.keys.tls_keys import CLIENT_AUTH, of_listener
from pybroker.config.listeners import PLAIN, between_brokers

OF_LISTENERS = (
    "of the settings of a single listener only those of TLS, of SASL, max.connections and max.connection.creation.rate "
    "have an effect"
)
CLUSTER_ID = "CLUSTER_ID"
ABOUT_SASL = ("sasl.", "connections.max.reauth.ms", "connection.failed.authentication.delay.ms")


def of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each variable that looks like a setting but is not one, such as KAFKA_BOOTSTRAP_SERVERS."""
    for name, setting in sources.from_environment(environment).items():
        if not is_known(name):
            yield f"{setting.source} is ignored: {name} is unknown{suggestion(name, KEYS)}"
    if CLUSTER_ID in environment:
        yield f"{CLUSTER_ID} is ignored: a new data folder gets a cluster id of its own"


def of_settings(config: BrokerConfig) -> Iterator[str]:
    """Yields a line about keys that are not Kafka's, and a line for each missing feature that a key requires."""
    marked = [name for name, setting in config.foreign.items() if setting.is_marked and sources.is_name(name)]
    if marked:
        yield f"ignored, because they are not Kafka's keys: {', '.join(marked)}"
    yield from rights.remarks(config, is_between_brokers=_is_between_brokers(config))
    for name, setting in config.foreign.items():
        if not (setting.is_marked and sources.is_name(name)):  # the name may be a line of a secret, so it is not shown
            yield f"{setting.source} is ignored: it is not of the form key=value"
    for name, setting in config.unused.items():
        yield f"{name}={setting.text} (from {setting.source}) is not used, because process.roles is that of KRaft"
    for path in config.log_dirs:
        if path.startswith("~"):
            yield f"log.dirs={path} is not in the home folder, as only a shell replaces ~; it is in the working folder"
    if names := list(tls_slips.without_effect(config)):
        yield f"without effect, because their listener has no TLS: {', '.join(names)}"
    slips = []
    if any(name.startswith(ABOUT_SASL) or ".sasl." in name for name in (*config.given(), *config.ignored)):
        from pybroker.config import sasl_listeners  # only needed here

        if names := sasl_listeners.without_effect(config):
            yield f"without effect, because none of their listeners is SASL_SSL or SASL_PLAINTEXT: {', '.join(names)}"
        if names := list(sasl_listeners.of_absent_mechanisms(config)):
            yield f"without effect, because their listener does not have the mechanism: {', '.join(names)}"
        slips = list(sasl_listeners.slips(config))
        yield from (f"{name} is ignored: it is unknown{meant}" for name, meant in slips)
    for reason, names in _unmet(config, {name for name, _ in slips}).items():
        yield f"without effect, because {reason}: {', '.join(names)}"


def of_internals(config: BrokerConfig) -> str:
    """Returns a line with the given keys that only tune how Kafka works, or ask for nothing; empty without any."""
    asked_for = set(_asked_for(config))
    names = [name for name in config.given() if name in KEYS and KEYS[name].inert and name not in asked_for]
    return f"without effect, and not needed here: {', '.join(names)}" if names else ""


def _is_between_brokers(config: BrokerConfig) -> bool:
    """Returns whether brokers show certificates or Kerberos tickets to each other."""
    between = between_brokers(config)
    if between is None or between.security_protocol == PLAIN:
        return False
    if between.is_sasl:
        from pybroker.config import sasl_listeners  # only needed here

        if sasl_listeners.between_by_kerberos(config):
            return True
    if not between.is_tls:
        return False
    own = of_listener(between.listener, CLIENT_AUTH)
    asks = not between.is_sasl or config.is_set(own)  # as in Kafka, SASL listeners ignore the key for all listeners
    return asks and config.of_listener(between.listener, CLIENT_AUTH) == "required"


def _unmet(config: BrokerConfig, told: Set[str]) -> dict[str, list[str]]:
    """Returns the keys that require a missing feature, by feature; without the keys in ``told``."""
    found: dict[str, list[str]] = {}
    for name in (name for name in _asked_for(config) if name not in told):
        found.setdefault(reason_of(name), []).append(name)
    return found


def _asked_for(config: BrokerConfig) -> Iterable[str]:
    yield from (name for name in UNMET if config.static(name) != KEYS[name].default)
    yield from config.ignored


def reason_of(name: str) -> str:
    """Returns why a key has no effect. The key may be a plug-in's."""
    if name.startswith("listener.name."):
        return OF_LISTENERS
    if name.startswith(("rlmm.", "rsm.")):
        return UNMET["remote.log.storage.system.enable"]
    return UNMET.get(name, UNMET["principal.builder.class"])
