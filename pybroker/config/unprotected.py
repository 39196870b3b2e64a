"""Settings that promise protection which is not built: a broker that took them would stand open, so it does not start.

What is built takes its lines out of here; when TLS, SASL and an authorizer all are, this file goes, with its only
caller, ``start_options.configure``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.key import ConfigError
from pybroker.config.listeners import listeners

PLAIN = "PLAINTEXT"
ADVICE = "Without it the broker starts, open to everybody who reaches its port"


def check(config: BrokerConfig) -> None:
    """Raises ConfigError for the first setting whose promise would be broken."""
    for error in errors_of(config):
        raise error


def errors_of(config: BrokerConfig) -> Iterator[ConfigError]:
    """One for each setting whose promise would be broken. Raises ConfigError for bad listeners."""
    for name, text, reason in broken_promises(config):
        where = config.where(name)
        yield ConfigError(f"{name}={text}{f' (from {where})' if where else ''}: {reason}. {ADVICE}")


def broken_promises(config: BrokerConfig) -> Iterator[tuple[str, str, str]]:
    """Name and text of each such setting, and what is not there yet. Raises ConfigError for bad listeners."""
    if authorizer := config["authorizer.class.name"]:
        yield "authorizer.class.name", authorizer, "there is no authorizer yet, ACLs would not hold"
    for endpoint in listeners(config):
        if endpoint.security_protocol != PLAIN:
            protocol = endpoint.security_protocol
            yield "listeners", str(endpoint), f"it is {protocol}, and there is no TLS and no SASL yet, only {PLAIN}"
    if config["security.inter.broker.protocol"] != PLAIN:
        text = config["security.inter.broker.protocol"]
        yield "security.inter.broker.protocol", text, f"brokers reach each other by {PLAIN} only"
    if config["ssl.client.auth"] == "required":
        yield "ssl.client.auth", "required", "there is no TLS yet, no client would have to show a certificate"
    for name, setting in config.ignored.items():
        if name.startswith("listener.name.") and name.endswith(".ssl.client.auth") and setting.text == "required":
            yield name, "required", "there is no TLS yet, no client would have to show a certificate"
    for name in ("zookeeper.set.acl", "zookeeper.ssl.client.enable"):
        if config["zookeeper.connect"] and config[name]:
            yield name, "true", "the way to ZooKeeper is plain, and its nodes are open"
