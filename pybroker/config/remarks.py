"""What a start says of settings that it accepts and does not obey, a line per reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from pybroker.config import rights, sources, tls_slips
from pybroker.config.broker_config import KEYS, BrokerConfig, is_known, suggestion
from pybroker.config.inert_keys import UNMET
from pybroker.config.listeners import between_brokers
from pybroker.config.tls_keys import CLIENT_AUTH, of_listener

OF_LISTENERS = (
    "of the settings of a single listener only those of TLS, of SASL and max.connection.creation.rate have an effect"
)
CLUSTER_ID = "CLUSTER_ID"
ABOUT_SASL = ("sasl.", "connections.max.reauth.ms", "connection.failed.authentication.delay.ms")


def of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """A line for each variable that looks like a setting and is none, such as KAFKA_BOOTSTRAP_SERVERS."""
    for name, setting in sources.from_environment(environment).items():
        if not is_known(name):
            yield f"{setting.source} is ignored: {name} is unknown{suggestion(name, KEYS)}"
    if CLUSTER_ID in environment:
        yield f"{CLUSTER_ID} is ignored: a new data folder gets a cluster id of its own"


def of_settings(config: BrokerConfig) -> Iterator[str]:
    """A line for keys that are not Kafka's, one for each thing that is not here and that some key is about."""
    marked = [name for name, setting in config.foreign.items() if setting.is_marked and sources.is_name(name)]
    if marked:
        yield f"ignored, as they are none of Kafka's keys: {', '.join(marked)}"
    yield from rights.remarks(config, is_between_brokers=_is_between_brokers(config))
    for name, setting in config.foreign.items():
        if not (setting.is_marked and sources.is_name(name)):  # perhaps a line of a secret, which is not shown
            yield f"{setting.source} is ignored: it is no property, which is key=value"
    for name, setting in config.unused.items():
        yield f"{name}={setting.text} (from {setting.source}) is not used: process.roles says that this is KRaft's file"
    if names := list(tls_slips.without_effect(config)):
        yield f"without effect, as their listener is without TLS: {', '.join(names)}"
    slips = []
    if any(name.startswith(ABOUT_SASL) or ".sasl." in name for name in (*config.given(), *config.ignored)):
        from pybroker.config import sasl_listeners  # which nobody else needs

        if names := sasl_listeners.without_effect(config):
            yield f"without effect, as no listener that they are for is SASL_SSL or SASL_PLAINTEXT: {', '.join(names)}"
        if names := list(sasl_listeners.of_absent_mechanisms(config)):
            yield f"without effect, as their mechanism is none of their listener's: {', '.join(names)}"
        slips = list(sasl_listeners.slips(config))
        yield from (f"{name} is ignored: it is unknown{meant}" for name, meant in slips)
    for reason, names in _unmet(config, {name for name, _ in slips}).items():
        yield f"without effect, as {reason}: {', '.join(names)}"


def _is_between_brokers(config: BrokerConfig) -> bool:
    """Brokers show certificates to each other."""
    between = between_brokers(config)
    if between is None or not between.is_tls:
        return False
    own = of_listener(between.listener, CLIENT_AUTH)
    asks = not between.is_sasl or config.is_set(own)  # the key of all listeners is not for those of SASL
    return asks and config.of_listener(between.listener, CLIENT_AUTH) == "required"


def _unmet(config: BrokerConfig, told: Set[str]) -> dict[str, list[str]]:
    """Keys that ask for something that is not here, by what it is; without those that were ``told``."""
    found: dict[str, list[str]] = {}
    for name in (name for name in _asked_for(config) if name not in told):
        found.setdefault(reason_of(name), []).append(name)
    return found


def _asked_for(config: BrokerConfig) -> Iterable[str]:
    yield from (name for name in UNMET if config.static(name) != KEYS[name].default)
    yield from config.ignored


def reason_of(name: str) -> str:
    """Why a key, also a plug-in's, has no effect."""
    if name.startswith("listener.name."):
        return OF_LISTENERS
    if name.startswith(("rlmm.", "rsm.")):
        return UNMET["remote.log.storage.system.enable"]
    return UNMET.get(name, UNMET["principal.builder.class"])
