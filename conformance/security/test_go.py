"""Go's clients manage passwords of SCRAM and quotas, and learn when a quota makes them wait. Other tests of this folder
run with them, too: logins, and what ACLs allow.

``python -m conformance.campaign go`` runs all of it. It is a campaign because it needs Go, which ``install.sh`` does
not install: Debian 12's is too old for these libraries.
"""

from __future__ import annotations

import pytest

from conformance.drivers.logins import Login
from conformance.security.base import Refused
from conformance.security.conftest import Grant
from conformance.security.go import REFUSALS, GoAdministrator, GoClient, Password
from conformance.security.tokens import MECHANISMS, Token
from harness.clients.go_clients import LIBRARIES

pytestmark = pytest.mark.campaign

SECRET = "their own secret"
ITERATIONS = 8192
QUOTAS = {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0, "request_percentage": 150.0}
TOO_MANY_BYTES = b"v" * 30_000

libraries = pytest.mark.parametrize("library", LIBRARIES)
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS)


@mechanisms
@libraries
def test_s112_go_stores_a_password_logs_in_by_it_and_deletes_it(
    library: str, mechanism: str, admin: Login, user: Login, topic: str, grant: Grant
) -> None:
    client, by = GoClient(library), GoAdministrator(library)
    login = user._replace(mechanism=mechanism, password=SECRET)
    grant(("ALL", "TOPIC", topic), ("ALL", "GROUP", topic))
    kind = Password(mechanism, ITERATIONS)
    by.store_password(admin, user.user, SECRET, kind)
    assert by.passwords(admin, user.user) == {kind}
    client.write(login, topic, b"second")
    assert client.read(login, topic, topic, 2) == [b"first", b"second"]
    refused = f"^{REFUSALS[library]['login']}:"
    with pytest.raises(Refused, match=refused):
        client.write(login._replace(password="wrong"), topic, b"x")
    by.delete_password(admin, user.user, mechanism)
    with pytest.raises(Refused, match=refused):
        client.write(login, topic, b"x")


@libraries
def test_s112_go_sets_describes_and_removes_quotas(library: str, admin: Login, user: Login) -> None:
    by = GoAdministrator(library)
    by.set_quotas(admin, user.user, QUOTAS)
    assert by.quotas(admin, user.user) == QUOTAS
    by.remove_quotas(admin, user.user, ["request_percentage"])
    by.set_quotas(admin, user.user, {"producer_byte_rate": 5000.0})
    assert by.quotas(admin, user.user) == {"producer_byte_rate": 5000.0, "consumer_byte_rate": 2000.0}
    by.remove_quotas(admin, user.user, ["producer_byte_rate", "consumer_byte_rate"])
    assert by.quotas(admin, user.user) == {}


@libraries
def test_s112_go_hears_how_long_a_producer_above_its_quota_has_to_wait(
    library: str, admin: Login, user: Login, topic: str, grant: Grant
) -> None:
    client, by = GoClient(library), GoAdministrator(library)
    grant(("ALL", "TOPIC", topic))
    assert client.throttled_ms(user, topic, TOO_MANY_BYTES) == 0
    by.set_quotas(admin, user.user, {"producer_byte_rate": 1000.0})
    assert client.throttled_ms(user, topic, TOO_MANY_BYTES) > 1000


@libraries
def test_s112_go_without_rights_is_refused_passwords_and_quotas(library: str, user: Login) -> None:
    by = GoAdministrator(library)
    refused = f"^{REFUSALS[library]['cluster']}:"
    with pytest.raises(Refused, match=refused):
        by.store_password(user, user.user, SECRET, Password("SCRAM-SHA-256", ITERATIONS))
    with pytest.raises(Refused, match=refused):
        by.passwords(user, user.user)
    with pytest.raises(Refused, match=refused):
        by.set_quotas(user, user.user, QUOTAS)
    if library == "kafka-go":  # The client does not read the error of this answer.
        assert by.quotas(user, user.user) == {}
    else:
        with pytest.raises(Refused, match=refused):
            by.quotas(user, user.user)


@mechanisms
def test_s112_franz_go_logs_in_by_a_token(mechanism: str, token: Token, user: Login, topic: str, grant: Grant) -> None:
    client, holder = GoClient("franz-go"), token.login(user, mechanism)
    with pytest.raises(Refused, match=f"^{REFUSALS['franz-go']['topic']}:"):
        client.write(holder, topic, b"x")
    grant(("ALL", "TOPIC", topic), ("ALL", "GROUP", topic))
    client.write(holder, topic, b"by token")
    assert client.read(holder, topic, topic, 2) == [b"first", b"by token"]
