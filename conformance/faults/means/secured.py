"""Secures brokers everywhere: SASL_SSL on their only listener, for clients and brokers, and an authorizer.

Clients log in as ``EVERYBODY``, whom ACLs allow everything. ``GUESTS`` may do nothing until they are granted a right.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import trustme

from harness.protocol.entrance import MECHANISM, Entrance, used_by_all
from harness.protocol.kinds import LITERAL, AclOperation, AclPermission, AclResource
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Brokers
from harness.servers.guarded import AUTHORIZER, PASSWORD, jaas
from harness.waiting import until

LISTENER: Final = "GUARDED"
ADMIN, EVERYBODY = "admin", "everybody"
GUESTS: Final = tuple(f"guest-{number}" for number in range(200))
ALL_OF: Final = {
    AclResource.TOPIC: "*",
    AclResource.GROUP: "*",
    AclResource.TRANSACTIONAL_ID: "*",
    AclResource.CLUSTER: "kafka-cluster",
}
ACLS_VERSION: Final = 2
CONNECT_S = 5.0
SPOILT_S = 8.0
"""A file is broken for at most this long, which is several checks of the broker."""
PATIENCE_S = 180.0


def principal(user: str) -> str:
    """Returns the user as ACLs name it."""
    return f"User:{user}"


class Secured:
    """The users of secured brokers, and the authority of their shared certificate."""

    def __init__(self, folder: Path, hosts: Iterable[str] = ("127.0.0.1",)) -> None:
        folder.mkdir(parents=True)
        self._hosts = tuple(hosts)
        self._authority = trustme.CA()
        self._ca, self._keys = folder / "ca.pem", folder / "broker.pem"
        self._authority.cert_pem.write_to_path(str(self._ca))
        self.certificate = b""
        """The newest certificate of the brokers."""
        self.renew()

    def config(self, host: str, port: int = 0) -> dict[str, object]:
        """Returns a broker's configuration, with ``_`` for ``.``."""
        users = {f"user_{name}": PASSWORD for name in (ADMIN, EVERYBODY, *GUESTS)}
        return {
            "listeners": f"{LISTENER}://{host}:{port}",
            "listener_security_protocol_map": f"{LISTENER}:SASL_SSL",
            "inter_broker_listener_name": LISTENER,
            "sasl_enabled_mechanisms": MECHANISM,
            f"listener_name_{LISTENER.lower()}_{MECHANISM.lower()}_sasl_jaas_config": jaas(MECHANISM, **users),
            "ssl_keystore_type": "PEM",
            "ssl_keystore_location": self._keys,
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": self._ca,
            "authorizer_class_name": AUTHORIZER,
            "super_users": principal(ADMIN),
        }

    def entrance(self, user: str) -> Entrance:
        """Returns the user's login."""
        return Entrance(user, PASSWORD, str(self._ca))

    def let_everybody_in(self, address: tuple[str, int]) -> None:
        """Creates the ACLs of ``EVERYBODY``."""
        rows = [grant(EVERYBODY, AclOperation.ALL, kind, name) for kind, name in ALL_OF.items()]
        with Wire(address, entrance=self.entrance(ADMIN)) as wire:
            reply = wire.ask("CreateAcls", ACLS_VERSION, creations=rows)
        assert not any(row.error_code for row in reply.results), reply

    # -- certificates ------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Replaces the key and its certificate by new ones."""
        leaf = self._authority.issue_cert(*self._hosts)
        self.certificate = leaf.cert_chain_pems[0].bytes()
        leaf.private_key_and_cert_chain_pem.write_to_path(str(self._keys.with_suffix(".new")))
        self._keys.with_suffix(".new").replace(self._keys)

    def spoil(self) -> None:
        """Truncates the file to half: brokers keep the certificate that they have."""
        whole = self._keys.read_bytes()
        self._keys.with_suffix(".new").write_bytes(whole[: len(whole) // 2])
        self._keys.with_suffix(".new").replace(self._keys)

    def change(self, brokers: Brokers, chance: random.Random) -> None:
        """Changes the certificate, sometimes after an unreadable one; returns when all brokers present it."""
        if chance.random() < 0.5:
            self.spoil()
            time.sleep(chance.random() * SPOILT_S)
        self.renew()

        def are_all_new() -> bool:
            return all(self.is_shown(brokers.address(broker)) for broker in brokers.ids)

        until(are_all_new, "all brokers to show the new certificate", PATIENCE_S)

    def is_shown(self, address: tuple[str, int]) -> bool:
        """Returns whether the broker presents the newest certificate on new connections."""
        try:
            with (
                socket.create_connection(address, CONNECT_S) as connected,
                self.entrance(ADMIN).by_tls(connected, address[0]) as encrypted,
            ):
                shown = encrypted.getpeercert(binary_form=True)
        except OSError:
            return False
        return shown is not None and ssl.DER_cert_to_PEM_cert(shown).encode().split() == self.certificate.split()


@contextlib.contextmanager
def running(brokers: Brokers, secured: Secured | None) -> Iterator[None]:
    """Starts and ends the brokers. If they are secured, everybody may log in and do everything."""
    with contextlib.ExitStack() as entered:
        if secured is not None:
            entered.enter_context(used_by_all(secured.entrance(EVERYBODY)))
        entered.enter_context(brokers)
        if secured is not None:
            secured.let_everybody_in(brokers.address(1))
        yield


def grant(user: str, operation: AclOperation, kind: AclResource, name: str) -> Mapping[str, Any]:
    """Builds a row of CreateAcls."""
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": principal(user),
        "host": "*",
        "operation": operation,
        "permission_type": AclPermission.ALLOW,
    }


def filtered(user: str, kind: AclResource, name: str) -> Mapping[str, Any]:
    """Builds a filter for each ACL of the user on the resource."""
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": LITERAL,
        "principal_filter": principal(user),
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermission.ANY,
    }
