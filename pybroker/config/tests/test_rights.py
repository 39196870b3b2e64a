"""The settings of an authorizer, and the warnings about them at a start."""

from __future__ import annotations

import pytest

from pybroker.config import BrokerConfig, ConfigError, rights, unprotected
from pybroker.config.remarks import of_settings

SASL = ["listeners=SASL_SSL://:1,PLAINTEXT://:2", "sasl.enabled.mechanisms=SCRAM-SHA-256"]


def loaded(*settings: str) -> BrokerConfig:
    return BrokerConfig.load(settings, {})


@pytest.mark.parametrize("name", rights.BUILT)
def test_kafkas_own_authorizers_are_accepted(name: str) -> None:
    unprotected.check(loaded(f"authorizer.class.name={name}", "super.users=User:a;Group:b; "), alone=True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["authorizer.class.name=a.Ranger"], r"=a\.Ranger \(from --set\): there is no such authorizer, only"),
        (
            [f"authorizer.class.name={rights.STANDARD}", "super.users=User:a;b"],
            r"super\.users=User:a;b \(from --set\): b is not of the form User:name",
        ),
    ],
)
def test_an_unknown_authorizer_or_a_malformed_super_user_stops_the_start(settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        unprotected.check(loaded(*settings), alone=True)


def test_super_users_are_separated_by_semicolons() -> None:
    config = loaded("super.users=User:CN=kafka-1,O=x; User:admin ;")
    assert rights.super_users(config) == {"User:CN=kafka-1,O=x", "User:admin"}
    assert rights.super_users(loaded()) == frozenset()


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ([], True),
        (["listeners=SSL://:1"], True),
        (["listeners=SSL://:1", "ssl.client.auth=requested"], False),
        (["listeners=SSL://:1", "listener.name.ssl.ssl.client.auth=required"], False),
        (SASL, False),
    ],
)
def test_an_authorizer_is_reported_if_no_listener_authenticates_clients(settings: list[str], is_told: bool) -> None:
    lines = list(of_settings(loaded(f"authorizer.class.name={rights.STANDARD}", *settings)))
    assert [("all of them are User:ANONYMOUS" in line) for line in lines] == [True] * is_told


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (["listeners=PLAINTEXT://:9192"], "PLAINTEXT://:9192"),
        (["listeners=A://kafka-1:1,B://0.0.0.0:2", "listener.security.protocol.map=A:PLAINTEXT,B:SSL"], "A://kafka-1:1"),
        (["listeners=PLAINTEXT://127.0.0.1:1"], ""),
        (["listeners=A://127.0.0.2:1,B://[::1]:2", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"], ""),
        (["listeners=PLAINTEXT://:1", f"authorizer.class.name={rights.STANDARD}"], ""),
        (["listeners=SASL_SSL://:1"], ""),
    ],
)
def test_a_listener_is_reported_if_other_machines_may_do_everything_there(settings: list[str], names: str) -> None:
    assert rights.open_to_all(loaded(*settings)).partition(": every machine ")[0] == names
