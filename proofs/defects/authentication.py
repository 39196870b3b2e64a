"""Defects of SASL authentication."""

from __future__ import annotations

from proofs.defects import Patch, defect
from pybroker.config import sasl_listeners
from pybroker.net.peer_connection import Login, PeerConnection
from pybroker.security.sasl import authentication
from pybroker.security.sasl.authentication import Authentication, BadMessage, Exchange
from pybroker.security.sasl.broker_login import BrokerLogin
from pybroker.security.sasl.plain import Plain
from pybroker.security.sasl.scram_credentials import from_text
from pybroker.security.sasl.scram_server import ScramUsers
from pyclient.protocol import scram

TESTS = "pybroker/security/sasl/tests/test_authentication.py"


BETWEEN = "pybroker/tests/several_brokers/test_kerberos_between_brokers.py"


@defect(f"{BETWEEN}::test_a_broker_without_a_brokers_ticket_is_refused_although_it_knows_the_secret")
def the_secret_is_enough() -> list[Patch]:
    """A program that can read the coordination store can act as a broker, although brokers use Kerberos."""
    return [(BrokerLogin, "refusal", lambda self, listener, sasl, principal: None)]


@defect(f"{BETWEEN}::test_a_broker_logs_in_again_and_its_requests_wait_for_that")
def requests_do_not_wait_for_the_login() -> list[Patch]:
    """The other broker closes the connection at a request that comes during a login."""

    async def renew(self: PeerConnection, login: Login, host: str) -> None:
        await self.log_in(login, host)

    return [(PeerConnection, "_renew", renew)]


@defect(f"{TESTS}::test_only_some_apis_are_admitted_before_and_during_authentication")
def every_request_may_come_before() -> list[Patch]:
    """Clients need no password."""
    return [(Authentication, "admit", lambda self, api_key, now_s: None)]


@defect(f"{TESTS}::test_plain_refuses_malformed_and_wrong_credentials")
def a_name_is_enough() -> list[Patch]:
    """A client that knows a user's name can log in as that user."""
    return [(Plain, "fits", lambda self, user, password: user in self._digests)]


@defect(f"{TESTS}::test_cve_2024_56128_scram_refuses_every_error_alike")
def any_proof_will_do() -> list[Patch]:
    """Like ``a_name_is_enough``, but with SCRAM."""
    return [(scram, "is_proved", lambda mechanism, stored, message, proof: True)]


@defect(f"{TESTS}::test_an_unknown_user_always_gets_the_same_plausible_challenge")
def unknown_users_are_told_at_once() -> list[Patch]:
    """An attacker can find out which user names exist."""

    def known(self: ScramUsers, user: str) -> scram.Credential:
        text = self._stored.of(user).get(self.mechanism.name)
        if text is None:
            raise BadMessage("an unknown user")
        return from_text(text)

    return [(ScramUsers, "credential", known)]


@defect(f"{TESTS}::test_re_authentication_keeps_user_and_mechanism")
def a_client_comes_again_as_somebody_else() -> list[Patch]:
    """A client that authenticates again as another user acts with the rights of the first one."""
    know = Authentication._know

    def change(self: Authentication, exchange: Exchange, user: str, now_s: float) -> None:
        self.user = user
        know(self, exchange, user, now_s)

    return [(Authentication, "_know", change)]


@defect(f"{TESTS}::test_a_session_ends_unless_the_client_re_authenticates")
def sessions_never_end() -> list[Patch]:
    """A user whose password was deleted stays as long as the connection does."""
    begin = Authentication.__init__

    def unlimited(self: Authentication, listener: str, mechanisms: dict[str, object], _: object) -> None:
        begin(self, listener, mechanisms, {})  # type: ignore[arg-type]

    return [(authentication.Authentication, "__init__", unlimited)]


@defect("pybroker/config/tests/test_sasl_listeners.py::test_a_sasl_listener_with_invalid_settings_stops_the_start")
def settings_of_sasl_are_not_looked_at() -> list[Patch]:
    """The broker silently ignores a misspelt setting."""
    return [(sasl_listeners, "errors_of", lambda config: ())]
