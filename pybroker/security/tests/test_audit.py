"""The audit log names denied users in Kafka's format, and repetitions do not fill it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pybroker.clock import ManualClock
from pybroker.security import audit
from pybroker.security.audit import LOGGER, MOST_OF_ADDRESS, WINDOW_MS, Audit
from pybroker.security.authorizer import StandardAuthorizer
from pybroker.security.tests.acl_samples import DENY, PREFIXED, READ, TOPIC, acl, by_pattern


class Asked:
    """An authorizer with an audit log, and its lines."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self.clock = ManualClock()
        self.authorizer = StandardAuthorizer(["User:root"], audit=Audit(self.clock.monotonic_ms))
        self.authorizer.update(by_pattern([acl("flights"), acl("fl", "User:bob", permission=DENY, pattern=PREFIXED)]))
        self._log = log

    def __call__(self, who: str, name: str = "flights", host: str = "10.0.0.1", **told: object) -> list[str]:
        """Asks the authorizer; returns the new lines of the audit log."""
        self._log.clear()
        self.authorizer.authorize(f"User:{who}", host, READ, TOPIC, name, **told)  # type: ignore[arg-type]
        return [record.getMessage() for record in self._log.records if record.name == LOGGER]


@pytest.fixture
def ask(caplog: pytest.LogCaptureFixture) -> Iterator[Asked]:
    with caplog.at_level(logging.INFO, LOGGER):
        yield Asked(caplog)


def test_a_denial_is_logged_with_its_rule(ask: Asked) -> None:
    begin = "is Denied operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:flights"
    assert ask("bob", request="Fetch", count=2) == [
        f"Principal = User:bob {begin} for request = Fetch with resourceRefCount = 2 based on rule"
        " MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=fl, patternType=PREFIXED, principal=User:bob,"
        " host=*, operation=READ, permissionType=DENY))"
    ]
    assert ask("carol") == [f"Principal = User:carol {begin} based on rule DefaultDeny"]
    assert ask("carol", "other", is_told=False) == []


def test_allowed_operations_are_logged_at_debug(ask: Asked, caplog: pytest.LogCaptureFixture) -> None:
    assert ask("alice") == []
    with caplog.at_level(logging.DEBUG, LOGGER):
        (line,) = ask("alice")
        assert "is Allowed operation = READ" in line
        assert line.endswith("principal=User:alice, host=*, operation=READ, permissionType=ALLOW))")
        assert ask("root")[0].endswith("based on rule SuperUser")
        assert len(ask("alice")) == 1


def test_a_repeated_denial_is_logged_rarely_and_counted(ask: Asked) -> None:
    assert [len(ask("bob")) for _ in range(5)] == [1, 0, 0, 0, 0]
    ask.clock.advance(WINDOW_MS)
    counted, told = ask("bob")
    assert counted == "4 more denials of User:bob were not logged: they were repeated, or too many"
    assert told.startswith("Principal = User:bob is Denied")


def test_the_same_denial_of_another_request_is_another_one(ask: Asked) -> None:
    asked = [len(ask("bob", request=request)) for request in ("Metadata", "Fetch", "Fetch", "Metadata")]
    assert asked == [1, 1, 0, 0]


def test_a_flood_of_different_denials_is_limited_and_counted(ask: Asked) -> None:
    lines = sum(len(ask("eve", f"topic-{number}")) for number in range(MOST_OF_ADDRESS + 100))
    assert lines == MOST_OF_ADDRESS
    ask.clock.advance(WINDOW_MS)
    assert ask("eve")[0].startswith("100 more denials of User:eve")


def test_a_flood_hides_no_other_clients_denials(ask: Asked) -> None:
    for number in range(1000):
        ask("eve", f"topic-{number}")
    assert "User:carol is Denied" in ask("carol")[0]
    assert "User:eve is Denied" in ask("eve", host="10.0.0.2")[0]


def test_many_addresses_of_one_principal_hide_no_other_principal(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_OF_PRINCIPAL", 3)
    assert sum(len(ask("eve", host=f"10.0.1.{number}")) for number in range(9)) == 3
    assert len(ask("carol")) == 1


def test_each_principal_still_gets_one_line_when_there_are_too_many_lines(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_LINES", 2)
    assert [len(ask("eve", name)) for name in "abc"] == [1, 1, 0]
    assert [len(ask("carol", name)) for name in "abc"] == [1, 0, 0]


def test_only_the_principals_with_most_are_counted_by_name(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_COUNTED", 1)
    for who in ("bob", "bob", "bob", "carol", "carol", "dave", "dave"):
        ask(who)
    ask.clock.advance(WINDOW_MS)
    assert [line.partition(":")[0] for line in ask("eve")[:2]] == [
        "2 more denials of User", "2 more denials of 2 others were not logged"
    ]


def test_a_name_cannot_forge_a_line(ask: Asked) -> None:
    (line,) = ask("eve", "x\nPrincipal = User:root is Allowed")
    assert "\n" not in line


def test_a_disabled_audit_log_costs_nothing(ask: Asked, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        assert ask("bob") == []
