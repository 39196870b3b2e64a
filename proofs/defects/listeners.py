"""Defects of listeners with TLS."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from proofs.defects import Patch, defect
from pybroker.net import complaint
from pybroker.net.limits import UNLIMITED
from pybroker.net.server import SWEEP_S, SocketServer
from pybroker.net.tls.client_hello import HelloReader
from pybroker.net.tls.handshakes import Handshakes
from pybroker.security.principal_mapping import PrincipalMapping
from pybroker.security.tls import listener_tls
from pybroker.security.tls.broker_tls import BrokerTls
from pyclient.protocol import tls

NET = "pybroker/net/tests/test_tls.py"
SECURITY = "pybroker/security"
BETWEEN = "pybroker/tests/security/test_tls_between_brokers.py"


@defect(f"{NET}::test_the_oldest_stalled_tls_handshakes_are_closed_to_admit_new_ones")
def handshakes_are_not_limited_in_number() -> list[Patch]:
    """A client that opens connections and stays silent takes all of the broker's descriptors."""
    begin = Handshakes.begin

    def unlimited(self: Handshakes, *given: object) -> None:
        self.limits = replace(self.limits, max_handshakes=UNLIMITED)
        begin(self, *given)  # type: ignore[arg-type]

    return [(Handshakes, "begin", unlimited)]


@defect(f"{NET}::test_a_client_hello_with_a_finite_field_group_is_refused_before_the_handshake")
def a_client_may_agree_on_keys_by_a_finite_field() -> list[Patch]:
    """One kilobyte from a client costs 0.1 s of the thread that all handshakes share."""
    return [(HelloReader, "asks_for_finite_field", lambda self: False)]


@defect(f"{NET}::test_a_tls_handshake_that_takes_too_long_is_closed")
def handshakes_may_take_as_long_as_they_like() -> list[Patch]:
    """A client that sends a byte an hour keeps its place."""
    return [(Handshakes, "sweep", lambda self, now: None)]


@defect(f"{NET}::test_an_unread_large_reply_is_encrypted_only_in_part")
def a_reply_is_encrypted_as_a_whole() -> list[Patch]:
    """A client that does not read its replies makes the broker hold them encrypted in memory."""
    return [(tls, "PIECE", 1 << 30)]


@defect(f"{NET}::test_case_58_a_failed_tls_handshake_closes_its_connection_and_is_logged[kafka]")
def a_client_without_tls_is_told_an_error_of_openssl() -> list[Patch]:
    """The message does not say which setting to change."""
    return [(complaint, "not_tls", lambda first: "WRONG_VERSION_NUMBER")]


@defect(f"{SECURITY}/tls/tests/test_listener_tls.py::test_a_changed_file_is_reloaded_and_a_broken_one_is_ignored")
def a_certificate_that_changes_is_not_read_again() -> list[Patch]:
    """As in Kafka, the broker goes on with the old certificate, which expires."""
    return [(listener_tls, "stamp_of", lambda path: None)]


@defect(
    "pybroker/net/tests/test_connection.py"
    "::test_incomplete_requests_that_fill_the_memory_complete_one_by_one"
)
def frames_that_are_not_whole_wait_for_each_other() -> list[Patch]:
    """The frames wait until their time limit, and the broker serves nobody meanwhile."""

    def feed(self: SocketServer) -> None:
        if self._starved and self.memory.taken < self.memory.limit:
            self._starved.pop().resume()
        if self._starved:
            self.loop.call_later(SWEEP_S[0], partial(feed, self))

    return [(SocketServer, "_feed", feed)]


@defect(f"{SECURITY}/tls/tests/test_listener_tls.py::test_alter_configs_refuses_an_unusable_key_store")
def a_key_store_is_accepted_untried() -> list[Patch]:
    """The broker accepts an unusable key store, and fails at its next start."""
    return [(listener_tls.ListenerTls, "try_out", lambda self, config: None)]


@defect(f"{BETWEEN}::test_a_client_with_the_secret_but_no_certificate_is_not_a_broker")
def the_secret_makes_a_broker_without_a_certificate() -> list[Patch]:
    """Everybody who can read the coordination store may pose as a broker."""
    return [(BrokerTls, "refusal", lambda self, listener, principal: None)]


@defect(f"{BETWEEN}::test_a_broker_with_an_unsuitable_certificate_gets_no_requests[host]")
def a_broker_does_not_look_at_the_host_of_another() -> list[Patch]:
    """Every holder of a certificate from the authority may pose as every broker."""
    return [(listener_tls.ListenerTls, "client_context", property(lambda self: self._made.probe))]


@defect(f"{SECURITY}/tests/test_principals.py::test_a_name_that_no_rule_matches_is_refused")
def who_matches_no_rule_comes_in_by_the_whole_name() -> list[Patch]:
    """The rules were meant to keep other certificates out."""
    user = PrincipalMapping.user

    def lenient(self: PrincipalMapping, name: str) -> str:
        try:
            return user(self, name)
        except ValueError:
            return name

    return [(PrincipalMapping, "user", lenient)]
