"""The ACLs of ``pybroker.run(acls=[Acl("User:alice", "READ", topic="flights")])``.

It imports nothing of the broker, like ``embedded``, which uses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

OPERATIONS: Final = (
    *("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS"),
    *("ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
)
"""Kafka's operations by their names in the protocol. Kafka's tools write them like ``DescribeConfigs``."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of every client that has not logged in."""
CLUSTER_NAME: Final = "kafka-cluster"
_BY_WORD: Final = {name.replace("_", ""): name for name in OPERATIONS}


class Acl:
    """What a user may do or, with ``deny``, may not do: ``Acl("User:alice", "READ", "WRITE", topic="flights")``.

    ``principal`` is ``User:alice``, or just ``alice``; ``User:*`` means everybody. The operations are Kafka's, written
    ``READ`` or ``DescribeConfigs``. Name exactly one resource. A topic ``*`` means every topic. With ``prefixed``, the
    ACL applies to all resources whose names begin with the given one. Raises ValueError.
    """

    __slots__ = ("deny", "host", "operations", "prefixed", "principal", "resource")

    def __init__(
        self,
        principal: str,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        delegation_token: str | None = None,
        user: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        deny: bool = False,
        host: str = "*",
    ) -> None:
        named = {
            "TOPIC": topic,
            "GROUP": group,
            "CLUSTER": CLUSTER_NAME if cluster else None,
            "TRANSACTIONAL_ID": transactional_id,
            "DELEGATION_TOKEN": delegation_token,
            "USER": user,
        }
        resources = [(kind, name) for kind, name in named.items() if name is not None]
        if len(resources) != 1 or not resources[0][1]:
            kinds = ", ".join(map(str.lower, named))
            raise ValueError(f"an Acl names exactly one resource, which is one of {kinds}")
        if not operations:
            raise ValueError(f"an Acl needs an operation: Acl({principal!r}, 'READ', …)")
        self.resource = resources[0]
        self.principal = principal if ":" in principal else f"User:{principal}"
        self.operations = tuple(map(_operation, operations))
        self.prefixed = prefixed
        self.deny = deny
        self.host = host

    def __repr__(self) -> str:
        kind, name = self.resource
        words = [*map(repr, (self.principal, *self.operations))]
        words.append(f"{kind.lower()}={True if kind == 'CLUSTER' else name!r}")
        words += [f"{key}=True" for key in ("prefixed", "deny") if getattr(self, key)]
        words += [f"host={self.host!r}"] if self.host != "*" else []
        return f"Acl({', '.join(words)})"


def check_known(acls: Iterable[Acl], super_users: str) -> None:
    """Raises ValueError if these ACLs have no effect at a broker without users: its clients are all User:ANONYMOUS.
    """
    named = {acl.principal for acl in acls}
    if named and not named & {ANONYMOUS, "User:*"} and ANONYMOUS not in super_users:
        raise ValueError(
            f"acls name {min(named)}, and this broker knows no users: each client is {ANONYMOUS}. Add users by"
            " sasl='SCRAM-SHA-256', users={'alice': 'secret'}, or certificates by tls=True, ssl_client_auth='required'"
        )


def texts(acl: Acl) -> Iterator[str]:
    """Yields an ACL in the form of ``--add-acl``, one text for each operation. Raises TypeError."""
    if not isinstance(acl, Acl):
        raise TypeError(f"acls contains {acl!r}, which is not an Acl: acls=[Acl('alice', 'READ', topic='flights')]")
    pattern = "PREFIXED" if acl.prefixed else "LITERAL"
    permission = "DENY" if acl.deny else "ALLOW"
    for operation in acl.operations:
        yield json.dumps([*acl.resource, pattern, acl.principal, acl.host, operation, permission])


def _operation(text: str) -> str:
    found = _BY_WORD.get(text.upper().replace("_", ""))
    if found is None:
        raise ValueError(f"{text!r} is not an operation; the operations are {', '.join(OPERATIONS)}")
    return found
