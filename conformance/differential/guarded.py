"""Brokers with an authorizer on both sides: users instead of nobody, and sequences that change ACLs meanwhile.

All other steps are those of ``generate``. The actors 0 and 1 send them as Alice and Bob. The third actor is a super
user, who sends most of the steps about ACLs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from conformance.differential.broker_side import HARNESS, World
from conformance.differential.campaign import SETTINGS, Side
from conformance.differential.generate import ACTORS, KINDS, sequence
from conformance.differential.requests import VERBS, acls
from conformance.differential.step import Step, step
from harness.protocol.entrance import Entrance
from harness.protocol.kinds import AclOperation
from harness.protocol.wire_client import Wire
from harness.servers.guarded import PASSWORD, Guarded
from harness.waiting import until

LOGINS: Final = ("alice", "bob", "admin")
ADMIN: Final = ACTORS
RESOURCES: Final = ("topic", "group", "transactional_id", "cluster")
NAMES: Final[Mapping[str, Sequence[str]]] = {
    "topic": ("own", "a", "b", "prefix", "*"),
    "group": ("own", "prefix", "*"),
    "transactional_id": ("own", "prefix", "*"),
    "cluster": ("own",),
}
PRINCIPALS: Final = ("User:alice", "User:alice", "User:bob", "User:*", "User:carol", "Group:alice")
HOSTS: Final = ("*", "*", "*", "127.0.0.1", "10.0.0.1")
OPERATIONS: Final = tuple(each.name.lower() for each in AclOperation if each is not AclOperation.ANY)
#: How likely a user begins with all rights to a kind of resource, and a step about ACLs comes before another step.
TRUSTED, CHANGED = 0.7, 0.35
#: Of the steps about ACLs: how many are of the admin; how many new ACLs deny, have a prefix, or are wrong.
BY_ADMIN, DENY, PREFIXED, WRONG = 0.85, 0.4, 0.4, 0.1
#: How likely a filter names a field.
NAMED: Final = 0.3
ODDS: Final = {"create_acls": 6, "delete_acls": 2, "describe_acls": 2}
WRONG_ACLS: Final[Sequence[Mapping[str, str]]] = (
    {"principal": "alice"},
    {"principal": ""},
    {"name": ""},
    {"pattern": "match"},
    {"pattern": "any"},
    {"operation": "any"},
    {"permission": "any"},
    {"resource": "any"},
    {"resource": "cluster", "name": "a"},
    {"host": ""},
)


class GuardedSide(Side):
    """A broker with an authorizer. The harness itself uses the listener that authorizes everything."""

    broker: Guarded

    def connect(self, actor: int) -> Wire:
        """Connects an actor by the name of its user."""
        if actor not in range(len(LOGINS)):
            return super().connect(actor)
        host, port = self.broker.guarded.rsplit(":", 1)
        return Wire((host, int(port)), 30, Entrance(LOGINS[actor], PASSWORD))

    def clean_up(self, world: World) -> None:
        """Deletes all ACLs, too."""
        wire = world.take(HARNESS)
        wire.ask("DeleteAcls", 3, filters=[acls.ALL])
        until(lambda: not acls.shown(world).resources, "no ACL to be there", pause_s=0.01)
        super().clean_up(world)


def guarded_broker(kind: type[Guarded], folder: Path) -> Guarded:
    """Returns a broker with an authorizer. Otherwise its settings are those for sequences without ACLs."""
    broker = kind(folder)
    broker.configure(**SETTINGS)
    return broker


def guarded_sequence(seed: int, number: int, kinds: Sequence[str] = KINDS) -> tuple[str, list[Step]]:
    """Returns the sequence with a number, with steps about ACLs before and between its steps."""
    random = Random(f"acls {seed}:{number}")
    kind, others = sequence(seed, number, kinds)
    steps = [
        step(ADMIN, "create_acls", version=3, resource=resource, name="*", principal=f"User:{user}")
        for user in LOGINS[:ADMIN]
        for resource in RESOURCES[:-1]
        if random.random() < TRUSTED
    ]
    for one in others:
        while random.random() < CHANGED:
            steps.append(_about_acls(random))
        steps.append(one)
    return kind, steps


def _about_acls(random: Random) -> Step:
    actor = ADMIN if random.random() < BY_ADMIN else random.randrange(ACTORS)
    (verb,) = random.choices(list(ODDS), list(ODDS.values()))
    options = _acl(random)
    if verb != "create_acls":
        options = {name: value for name, value in options.items() if random.random() < NAMED}
    elif random.random() < WRONG:
        options |= random.choice(WRONG_ACLS)
    return step(actor, verb, version=random.randint(*VERBS[verb].versions), **options)


def _acl(random: Random) -> dict[str, str]:
    resource = random.choice(RESOURCES)
    name = random.choice(NAMES[resource])
    prefixed = resource != "cluster" and name != "*" and random.random() < PREFIXED
    return {
        "resource": resource,
        "name": name,
        "pattern": "prefixed" if prefixed or name == "prefix" else "literal",
        "principal": random.choice(PRINCIPALS),
        "host": random.choice(HOSTS),
        "operation": random.choice(OPERATIONS),
        "permission": "deny" if random.random() < DENY else "allow",
    }
