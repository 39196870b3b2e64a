"""Sequences from a seed: mostly what a client would do next, with wrong turns.

The generator keeps a rough idea of what each actor has done, and draws the next sensible verb from it. Now and then it
draws a senseless verb, or options that are wrong on purpose. It never sees an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from conformance.differential.requests import VERBS
from conformance.differential.step import Step

KINDS = ("classic", "consumer", "migration", "transactions", "exactly-once")
ACTORS = 2
#: How often a step is not what would come next; how often its version is not the newest.
ILLEGAL_VERB, OLD_VERSION = 0.2, 0.3
LENGTHS = ((5, 18), (5, 18), (5, 18), (18, 40))
WITH_ID = {"init", "add_partitions", "add_offsets", "commit_in_txn", "produce", "end"}
#: The odds of none, one and two options that are wrong.
WRONG_OPTIONS = (75, 20, 5)

#: What else an option may be than what is right (which is its absence).
WRONG: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "join": {
        "member": ("none", "unknown", "other"),
        "instance": ("own", "own", "shared"),
        "protocols": ("both", "both", "reverse", "roundrobin", "none"),
        "type": ("connect", ""),
        "session_ms": (1, 10_000_000),
        "group": ("empty",),
    },
    "sync": {
        "member": ("none", "unknown", "other"),
        "generation": ("next", "before", "none"),
        "instance": ("own", "shared", "unknown"),
        "assign": ("first", "nobody"),
        "nonsense": (True,),
        "protocol": ("roundrobin",),
        "type": ("connect",),
        "group": ("empty",),
    },
    "heartbeat": {
        "member": ("none", "unknown", "other"),
        "generation": ("next", "before", "none"),
        "instance": ("own", "shared", "unknown"),
        "group": ("empty",),
    },
    "leave": {
        "member": ("none", "unknown", "other"),
        "instance": ("own", "shared", "unknown"),
        "more": (True,),
        "group": ("empty",),
    },
    "describe": {"operations": (True,)},
    "list_groups": {
        "states": (("Stable",), ("stable", "Empty"), ("Nonsense",), ("CompletingRebalance", "PreparingRebalance")),
        "types": (("classic",), ("Consumer",), ("nonsense",), ("share",)),
    },
    "delete_group": {"more": (True,)},
    "find_coordinator": {"type": (1, 1, 3)},
    "beat": {
        "member": ("unknown", "none", "other"),
        "epoch": ("join", "next", "before", "leave", "leave_static", "bad"),
        "instance": ("own", "own", "shared", "unknown"),
        "regex": ("same", "nothing.*", "(", ""),
        "assignor": ("range", "uniform", "nonsense"),
        "owned": ("nothing", "assigned", "stranger"),
        "timeout_ms": (45_000, 0),
        "rack": ("rack-1", ""),
        "group": ("empty",),
    },
    "describe_consumers": {"operations": (True,)},
    "commit": {
        "member": ("none", "unknown", "other"),
        "generation": ("next", "before", "none"),
        "instance": ("own", "shared", "unknown"),
        "topics": (("b",), ("a", "b"), ("none",), ("a", "none"), ()),
        "partition": (1, 77, -1),
        "offset": (-1, 0, 9),
        "metadata": (1, 4096, 4097, -1),
        "leader_epoch": (0, 5),
        "group": ("empty",),
    },
    "fetch_offsets": {
        "topics": (None, ("b",), ("a", "b"), ("none",), ()),
        "stable": (False,),
        "caller": ("own", "own"),
        "member": ("none", "unknown", "other"),
        "generation": ("next", "before", "none"),
        "more": (True,),
    },
    "delete_offsets": {"topics": (("b",), ("none",), ())},
    "init": {
        "id": (1, None, ""),
        "timeout_ms": (0, -1, 10_000_000),
        "fresh": (False, False),
        "producer": ("unknown", "none"),
        "epoch": ("next", "before"),
    },
    "add_partitions": {
        "id": (1, ""),
        "producer": ("unknown", "none"),
        "epoch": ("next", "before"),
        "topics": (("a",), ("none",), ("own", "none"), ()),
        "beyond": (True,),
        "verify": (True,),
    },
    "add_offsets": {"id": (1, ""), "producer": ("unknown",), "epoch": ("next", "before")},
    "commit_in_txn": {
        "id": (1, ""),
        "producer": ("unknown", "none"),
        "epoch": ("next", "before"),
        "topics": (("b",), ("none",)),
        "partition": (1, 77),
        "offset": (-1, 9),
        "metadata": (4097, -1),
        "caller": ("classic", "classic", "consumer"),
        "member": ("none", "unknown"),
        "generation": ("next", "before", "none"),
        "instance": ("own", "unknown"),
    },
    "produce": {
        "id": (1,),
        "producer": ("unknown",),
        "epoch": ("next", "before"),
        "topic": ("none",),
        "partition": (1, 1, 77),
        "count": (2, 3),
        "sequence": ("again", "gap", "zero"),
        "transactional": (False,),
    },
    "end": {"id": (1, ""), "producer": ("unknown", "none"), "epoch": ("next", "before"), "commit": (False, False)},
    "mark": {
        "producer": ("unknown",),
        "epoch": ("next", "before"),
        "topic": ("none",),
        "coordinator_epoch": (5, -1),
        "commit": (False,),
        "level": (1, 2),
    },
    "describe_txn": {"ids": ((0, 1), (1,), ())},
    "list_txns": {"states": (("Ongoing",), ("Empty", "CompleteCommit"), ("Nonsense",)), "whose": ("own",)},
    "describe_producers": {"topic": ("none",)},
    "read": {"isolation": (0,), "partition": (1, 77), "topic": ("none",)},
    "list_offsets": {"isolation": (0,), "at": (-2, 0), "topic": ("none",)},
}

#: Options that only these versions know; in other versions they would have no effect.
SINCE: Mapping[tuple[str, str], int] = {
    ("join", "instance"): 5,
    ("sync", "instance"): 3,
    ("heartbeat", "instance"): 3,
    ("leave", "instance"): 3,
    ("leave", "more"): 3,
    ("beat", "regex"): 1,
    ("commit", "instance"): 7,
    ("fetch_offsets", "caller"): 9,
    ("fetch_offsets", "more"): 8,
    ("find_coordinator", "type"): 1,
    ("init", "fresh"): 3,
    # Before v12 Kafka keeps an epoch that it refused, and then refuses the producer's next good batch, too.
    ("produce", "epoch"): 12,
    ("commit_in_txn", "caller"): 3,
    ("commit_in_txn", "instance"): 3,
}

CLASSIC_ODDS = {
    "join": 3, "sync": 3, "heartbeat": 3, "leave": 1, "commit": 3, "fetch_offsets": 2, "describe": 2,
    "list_groups": 1, "delete_group": 1, "delete_offsets": 1, "find_coordinator": 1, "describe_consumers": 1,
}  # fmt: skip
CONSUMER_ODDS = {
    "beat": 6, "commit": 3, "fetch_offsets": 2, "describe_consumers": 3, "describe": 1, "list_groups": 1,
    "delete_group": 1, "delete_offsets": 1, "join": 1, "heartbeat": 1,
}  # fmt: skip
TXN_ODDS = {
    "init": 2, "add_partitions": 2, "produce": 4, "end": 3, "describe_txn": 2, "list_txns": 1,
    "describe_producers": 2, "read": 3, "list_offsets": 2, "mark": 1, "add_offsets": 1, "commit_in_txn": 1,
}  # fmt: skip
BOTH_ODDS = {
    "init": 1, "add_offsets": 2, "commit_in_txn": 4, "fetch_offsets": 4, "end": 3, "join": 2, "sync": 2,
    "commit": 2, "delete_group": 1, "delete_offsets": 1, "describe_txn": 1, "heartbeat": 1, "produce": 1,
}  # fmt: skip


@dataclass
class Idea:
    """What the generator assumes about an actor's state."""

    role: str = "classic"
    joins: int = 0
    synced: bool = False
    subscribed: bool = False
    has_id: bool = False
    in_transaction: bool = False
    joined_round: int = -1


@dataclass
class Draft:
    """A sequence in the making. ``modern``: its transactions are of the second protocol (no AddPartitionsToTxn);
    ``apart``: each actor has its own transactional id; otherwise the actors fence each other. ``topics``: the topics to
    which all consumers subscribe. With different topics, the order of Kafka's hash maps would decide who gets which
    partitions. ``outside``: some batches belong to no transaction.
    """

    random: Random
    kind: str
    modern: bool
    apart: bool
    outside: bool
    topics: tuple[str, ...] = ("a",)
    ideas: list[Idea] = field(default_factory=lambda: [Idea() for _ in range(ACTORS)])
    steps: list[Step] = field(default_factory=list)
    #: Rounds of rebalancing that the group has seen.
    round: int = 0

    def add(self, actor: int, verb: str, **options: Any) -> None:
        version = self._version(verb)
        if self.kind != "classic" and verb in ("commit", "fetch_offsets", "commit_in_txn"):
            options.setdefault("role", self.ideas[actor].role)
        if self.apart and actor and verb in WITH_ID:
            options["id"] = actor
        known = WRONG.get(verb, {})
        if verb == "produce":
            # A batch outside a transaction after a refused one within: Kafka remembers the sequence of that.
            known = {name: known[name] for name in known if name != ("id" if self.outside else "transactional")}
        (wrong,) = self.random.choices((0, 1, 2), WRONG_OPTIONS)
        for name in self.random.sample(sorted(known), min(wrong, len(known))):
            options[name] = self.random.choice(known[name])
        if options.get("regex") == "same":
            options["regex"] = "shared-[ab]" if len(self.topics) == 2 else "shared-a"
        kept = {name: value for name, value in options.items() if version >= SINCE.get((verb, name), 0)}
        self.steps.append(Step(actor, verb, (("version", version), *kept.items())))

    def _version(self, verb: str) -> int:
        least, greatest = VERBS[verb].versions
        if verb in ("end", "commit_in_txn") and not self.modern:
            greatest = 4
        if verb == "produce":
            least, greatest = (12, 13) if self.modern else (3, 11)
        if verb in ("end", "commit_in_txn") and self.modern:
            least = 5
        if self.random.random() >= OLD_VERSION:
            return greatest
        return self.random.randint(least, greatest)


def sequence(seed: int, number: int, kinds: Sequence[str] = KINDS) -> tuple[str, list[Step]]:
    """Returns the kind and the steps of the sequence with a number."""
    random = Random(f"{seed}:{number}")
    kind = kinds[number % len(kinds)]
    modern, apart, outside = (random.random() < odds for odds in (0.6, 0.7, 0.3))
    draft = Draft(random, kind, modern=modern, apart=apart, outside=outside)
    if kind == "consumer":
        draft.topics = random.choice((("a",), ("a", "b")))
        _all_consumers(draft)
    elif kind == "migration":
        draft.ideas[random.randrange(ACTORS)].role = "consumer"
    length = random.randint(*random.choice(LENGTHS))
    while len(draft.steps) < length:
        _next(draft)
    return kind, draft.steps


def _all_consumers(draft: Draft) -> None:
    for idea in draft.ideas:
        idea.role = "consumer"


def _next(draft: Draft) -> None:
    actor = draft.random.randrange(ACTORS) if draft.random.random() < 0.4 else 0
    if draft.random.random() < ILLEGAL_VERB:
        odds = ODDS[draft.kind]
        (verb,) = draft.random.choices(list(odds), list(odds.values()))
        draft.add(actor, verb)
    else:
        PLAUSIBLE[draft.kind](draft, actor)


def _classic(draft: Draft, actor: int) -> None:
    """Joins until the actor is a member, then syncs, then does what members do. A first join makes all other members
    join again.
    """
    idea = draft.ideas[actor]
    if idea.joins < 2 or idea.joined_round < draft.round:
        fresh = idea.joined_round < 0
        draft.add(actor, "join")
        idea.joins += 1
        idea.synced = False
        if idea.joins >= 2:
            draft.round += fresh
            idea.joined_round = draft.round
    elif not idea.synced:
        draft.add(actor, "sync")
        idea.synced = True
    else:
        _member(draft, actor, "heartbeat")


def _consumer(draft: Draft, actor: int) -> None:
    idea = draft.ideas[actor]
    if not idea.subscribed:
        draft.add(actor, "beat", epoch="join", topics=draft.topics, timeout_ms=600_000, owned="nothing")
        idea.subscribed = True
    elif draft.random.random() < 0.45:
        draft.add(actor, "beat", owned=draft.random.choice(("same", "assigned", "assigned")))
    else:
        _member(draft, actor, "beat")


def _member(draft: Draft, actor: int, alive: str) -> None:
    """Draws an action of a member of a stable group."""
    verb = draft.random.choice((alive, "commit", "commit", "fetch_offsets", "describe_either", "leave_either"))
    idea = draft.ideas[actor]
    if verb == "describe_either":
        draft.add(actor, "describe_consumers" if alive == "beat" else "describe")
    elif verb != "leave_either":
        draft.add(actor, verb)
    elif alive == "beat":
        draft.add(actor, "beat", epoch="leave")
        idea.subscribed = False
    else:
        draft.add(actor, "leave")
        idea.joins, idea.synced, idea.joined_round = 1, False, -1


def _migration(draft: Draft, actor: int) -> None:
    (_consumer if draft.ideas[actor].role == "consumer" else _classic)(draft, actor)


def _transactions(draft: Draft, actor: int) -> None:
    idea = draft.ideas[actor]
    if not idea.has_id:
        draft.add(actor, "init")
        idea.has_id = True
    elif not idea.in_transaction:
        draft.add(actor, "produce" if draft.modern else "add_partitions")
        idea.in_transaction = True
    else:
        verb = draft.random.choice(("produce", "produce", "end", "read", "list_offsets", "describe_producers"))
        draft.add(actor, verb)
        idea.in_transaction = verb != "end"


def _exactly_once(draft: Draft, actor: int) -> None:
    """Draws an action around offsets in a transaction. A member of the group commits them, or a client that is none."""
    idea = draft.ideas[actor]
    if not idea.has_id:
        draft.add(actor, "init")
        idea.has_id = True
    elif idea.joins < 2 and draft.random.random() < 0.3:
        _classic(draft, actor)
    elif not idea.in_transaction:
        draft.add(actor, "commit_in_txn" if draft.modern else "add_offsets")
        idea.in_transaction = True
    else:
        verb = draft.random.choice(("commit_in_txn", "commit_in_txn", "end", "fetch_offsets", "fetch_offsets"))
        draft.add(actor, verb)
        idea.in_transaction = verb != "end"


ODDS: Mapping[str, Mapping[str, int]] = {
    "classic": CLASSIC_ODDS,
    "consumer": CONSUMER_ODDS,
    "migration": {**CLASSIC_ODDS, **CONSUMER_ODDS},
    "transactions": TXN_ODDS,
    "exactly-once": BOTH_ODDS,
}
PLAUSIBLE: Mapping[str, Callable[[Draft, int], None]] = {
    "classic": _classic,
    "consumer": _consumer,
    "migration": _migration,
    "transactions": _transactions,
    "exactly-once": _exactly_once,
}
