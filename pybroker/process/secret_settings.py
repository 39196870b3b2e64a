"""Settings that must not appear in a list of processes. A child process gets them in its environment, which only its
user can read.

It imports nothing of the broker: ``pybroker.embedded`` is also used by sources that are not built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SECRETS: Final = (
    "delegation.token.master.key",
    "delegation.token.secret.key",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "zookeeper.auth.digest",
    "zookeeper.sasl.jaas.config",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.truststore.password",
)
"""Keys of type PASSWORD. With ``listener.name.…`` before them they are secret too."""
ADD_SCRAM: Final = "PYBROKER_ADD_SCRAM"
"""The variable with the values of ``--add-scram``, one per line."""


def is_secret(name: str) -> bool:
    """Returns whether the value must not be shown."""
    return name in SECRETS or (name.startswith("listener.name.") and name.endswith(SECRETS))


def as_arguments(settings: Mapping[str, str]) -> list[str]:
    """Returns the settings that are not secret as options of ``start``."""
    return [part for name, text in settings.items() if not is_secret(name) for part in ("--set", f"{name}={text}")]


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the secret settings as variables."""
    return {variable_of(name): text for name, text in settings.items() if is_secret(name)}


def added_scram(environment: Mapping[str, str]) -> list[str]:
    """Returns the values of ``--add-scram`` in the variable ``ADD_SCRAM``."""
    return [line for line in environment.get(ADD_SCRAM, "").split("\n") if line]


def variable_of(name: str) -> str:
    """Returns the variable of a key as ``config.sources`` reads it: ``KAFKA_SSL_KEY_PASSWORD`` for
    ``ssl.key.password``.
    """
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
