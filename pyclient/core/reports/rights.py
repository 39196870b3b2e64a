"""Adds to a broker's denial which right is missing, and the command that grants it.

A broker only says that it denies the request. The needed operation follows from what the client was about to do. The
client's settings name its user, unless the broker derives the user from a certificate or a token.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from pyclient.config import Config
from pyclient.config.security import BY_SASL
from pyclient.errors import KafkaError
from pyclient.protocol.acls import AclOperation

TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER = "topic", "group", "transactional_id", "cluster"
KINDS: Final[Mapping[str, str]] = {
    "TOPIC_AUTHORIZATION_FAILED": TOPIC,
    "GROUP_AUTHORIZATION_FAILED": GROUP,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": TRANSACTIONAL_ID,
    "CLUSTER_AUTHORIZATION_FAILED": CLUSTER,
}
"""The kind of resource that an error is about, by the error's name."""
Needs = Mapping[str, AclOperation]
"""The needed operation by kind of resource."""
PRODUCING: Final[Needs] = {
    TOPIC: AclOperation.WRITE,
    GROUP: AclOperation.READ,
    TRANSACTIONAL_ID: AclOperation.WRITE,
    CLUSTER: AclOperation.IDEMPOTENT_WRITE,
}
IDENTIFYING: Final[Needs] = {CLUSTER: AclOperation.IDEMPOTENT_WRITE}
"""The right that a producer needs to get a producer id."""
CONSUMING: Final[Needs] = {TOPIC: AclOperation.READ, GROUP: AclOperation.READ}
NO_NEEDS: Final[Needs] = {}
"""For an admin client: each of its methods needs other rights."""
ANONYMOUS: Final = "User:ANONYMOUS"
ADMINISTRATOR: Final = "--command-config admin.properties"
"""The settings of an administrator, in the file name that the documentation uses."""


class Rights:
    """Names the missing right of one client. ``principal`` is the client's user, None if only brokers know it.
    ``bootstrap`` has its bootstrap servers, comma-separated.
    """

    def __init__(self, principal: str | None, needs: Needs, bootstrap: str = "") -> None:
        self.principal = principal
        self.needs = needs
        self._where = f"-b {shlex.quote(bootstrap)} {ADMINISTRATOR}" if bootstrap else ADMINISTRATOR

    def told(self, error: KafkaError, needs: Needs | None = None, more: str = "", **names: str | None) -> KafkaError:
        """Returns the error, with the missing right in its text if the error is about one. ``names`` has the resources
        of the request by kind, if known; the cluster has no name. ``more`` tells what else may be missing.
        """
        kind = KINDS.get(error.name, "")
        operation = (self.needs if needs is None else needs).get(kind)
        name = "" if kind == CLUSTER else names.get(kind)
        if operation is None or name is None or error.grant:
            return error
        if operation is AclOperation.IDEMPOTENT_WRITE and (topic := names.get(TOPIC)):  # brokers since 2.8 accept this
            kind, name, operation, more = TOPIC, topic, AclOperation.WRITE, " (or IDEMPOTENT_WRITE on the cluster)"
        what = "the cluster" if kind == CLUSTER else f"{kind.replace('_', ' ')} {name}"
        where = "--cluster" if kind == CLUSTER else f"--{kind.replace('_', '-')} {shlex.quote(name)}"
        right = f"--operation {operation.name.lower().replace('_', '-')} {where}"
        user = "USER" if self.principal is None else shlex.quote(self.principal)
        grant = f"pybroker acl create --allow {user} {right} {self._where}"
        who = self.principal or "its user"
        text = str(error).rstrip(".")
        told = type(error)(
            f"{text}; {who} needs {operation.name} on {what}{more}, which an administrator grants: `{grant}`"
        )
        told.grant = grant
        told.__cause__ = error.__cause__
        return told


def principal(config: Config, user: str | None) -> str | None:
    """Returns the user that brokers see for these settings. ``user`` is the client's SASL user, if it has one."""
    if config.security_protocol in BY_SASL:
        return f"User:{user}" if user else None
    shows_key = config.security_protocol == "SSL" and (config.ssl_keystore_location or config.ssl_keystore_key)
    return None if shows_key else ANONYMOUS
