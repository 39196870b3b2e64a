"""Secrets are not in the argument lists of processes, which everybody on the machine can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config import KEYS, BrokerConfig
from pybroker.embedded import EmbeddedBroker
from pybroker.process import broker_process
from pybroker.process.owned_process import OwnedProcess
from pybroker.process.secret_settings import SECRETS, as_environment
from pybroker.process.start_options import StartOptions

SECRET = "hidden=value, of two"
SETTINGS = {
    "ssl.keystore.password": SECRET,
    "listener.name.out_side-1.ssl.key.password": SECRET,
    "listener.name.a.plain.sasl.jaas.config": SECRET,
}


def test_every_key_with_a_sensitive_value_is_treated_as_secret() -> None:
    assert set(SECRETS) == {name for name, key in KEYS.items() if key.is_sensitive}


def test_an_embedded_broker_gets_secrets_from_its_environment_not_its_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Started(Exception):
        pass

    def start(_: object, command: list[str], environment: dict[str, str]) -> None:
        assert not [word for word in command if SECRET in word]
        assert "num.partitions=3" in command
        assert BrokerConfig.load((), environment)["ssl.keystore.password"] == SECRET
        raise Started

    monkeypatch.setattr(OwnedProcess, "start", start)
    monkeypatch.setenv("KAFKA_SSL_KEYSTORE_PASSWORD", "of another broker")
    with pytest.raises(Started):
        EmbeddedBroker(data_dir=tmp_path, num_partitions=3, ssl_keystore_password=SECRET).start()


def test_a_broker_of_several_gets_secrets_from_its_environment_not_its_arguments(tmp_path: Path) -> None:
    options = StartOptions(settings=tuple(f"{name}={text}" for name, text in SETTINGS.items()))
    command = broker_process.command(options, tmp_path, ("node.id=2",))
    assert not [word for word in command if SECRET in word]
    assert command[-2:] == ["--set", "node.id=2"]
    given = broker_process.settings_of(options, ("node.id=2",))
    config = BrokerConfig.load((), as_environment(given))
    assert config.given() | {name: each.text for name, each in config.ignored.items()} == SETTINGS
