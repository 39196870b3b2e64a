"""Entries of the journal: what one broker writes another one applies."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cluster.metadata import journal
from pybroker.cluster.metadata.image import (
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from pybroker.config import Endpoint
from pybroker.security.acls import AccessControlEntry, Entries, ResourcePattern
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def replicas(chance: Random) -> tuple[int, ...]:
    return tuple(chance.sample(range(1, 10), chance.randint(0, 4)))


def partition(chance: Random, index: int) -> PartitionImage:
    leader, leader_epoch, partition_epoch = (chance.randint(-1, 1 << 31) for _ in range(3))
    members = [replicas(chance) for _ in range(5)]
    return PartitionImage(
        index, leader, leader_epoch, partition_epoch, *members
    )


def configs(chance: Random) -> dict[str, str]:
    return {key: str(chance.random()) for key in ("a", "b.c") if chance.random() < 0.5}


def topic_of(chance: Random, name: str) -> TopicImage:
    parts = tuple(partition(chance, index) for index in range(chance.randint(1, 4)))
    return TopicImage(name, chance.randbytes(16), parts, configs(chance))


def broker(chance: Random, id: int) -> BrokerRegistration:
    return BrokerRegistration(
        id,
        chance.randint(0, 1 << 62),
        (Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092),),
        chance.choice([None, "rack"]),
        ("/data",),
        chance.random() < 0.5,
        "boot",
        chance.random() < 0.5,
        frozenset((chance.randbytes(16), n) for n in range(chance.randint(0, 2))),
        chance.randint(1, 3),
        chance.choice(["", "machine"]),
        chance.choice([(), (("metadata.version", 30, 33),)]),
    )


def acls(chance: Random) -> dict[ResourcePattern, Entries]:
    patterns = (ResourcePattern(AclResourceType.TOPIC, name, chance.choice([LITERAL, PREFIXED])) for name in "tu")
    ones = [AccessControlEntry(f"User:{n}", "*", AclOperation(n), AclPermissionType.ALLOW) for n in range(2, 5)]
    return {each: tuple(chance.sample(ones, chance.randint(0, 3))) for each in patterns if chance.random() < 0.5}


def step(chance: Random, image: MetadataImage) -> MetadataDelta:
    """Returns a change that a controller could make to ``image``."""
    changed, deleted = {}, {}
    for name in chance.sample("tuv", 2):
        old = image.topics.get(name)
        if old is None:
            changed[name] = topic_of(chance, name)
        elif chance.random() < 0.3:
            deleted[name] = old
        else:
            news = [partition(chance, p.index) if chance.random() < 0.5 else p for p in old.partitions]
            more = [partition(chance, len(news))] if chance.random() < 0.3 else []
            changed[name] = old._replace(partitions=(*news, *more), configs=configs(chance))
    return MetadataDelta(
        changed,
        deleted,
        {id: chance.choice([None, broker(chance, id)]) for id in chance.sample(range(9), 2)},
        chance.choice([{}, {(ResourceType.BROKER, ""): configs(chance)}]),
        chance.choice([None, (1, 7)]),
        chance.choice([None, (3, {"transaction.version": 2})]),
        acls=acls(chance),
    )


@given(st.integers(0, 1 << 32))
def test_a_broker_that_applies_the_journal_has_the_metadata_image_of_the_controller(seed: int) -> None:
    chance = Random(seed)
    writer = reader = MetadataImage(version=1)
    for _ in range(chance.randint(1, 8)):
        delta = step(chance, writer)
        entry = journal.encode(delta, writer, 1)
        writer = writer.apply(delta)
        reader = reader.apply(journal.decode(entry, reader))
        assert reader == writer


def test_a_journal_entry_for_one_of_thousands_of_partitions_is_a_few_bytes() -> None:
    parts = tuple(PartitionImage(n, 1, 0, 0, (1, 2, 3), (1, 2, 3)) for n in range(10_000))
    topic = TopicImage("t", bytes(16), parts)
    image = MetadataImage(topics={"t": topic}, names={topic.id: "t"})
    shrunk = replace(parts[77], isr=(1,), partition_epoch=1)
    after = topic._replace(partitions=(*parts[:77], shrunk, *parts[78:]))
    entry = journal.encode(MetadataDelta(changed={"t": after}), image, 1)
    assert len(entry) < 60
    assert image.apply(journal.decode(entry, image)).topics["t"] == after


def test_a_journal_entry_for_a_missing_topic_changes_nothing() -> None:
    """A broker may read the store after the deletion of a topic, and then apply earlier entries about the topic."""
    topic = TopicImage("t", bytes(16), (PartitionImage(0, 1, 0, 0, (1,), (1,)),))
    image = MetadataImage(topics={"t": topic}, names={topic.id: "t"})
    moved = topic._replace(partitions=(replace(topic.partitions[0], leader=2),))
    entry = journal.encode(MetadataDelta(changed={"t": moved}), image, 1)
    assert journal.decode(entry, MetadataImage()).changed == {}
    gone = journal.encode(MetadataDelta(deleted={"t": topic}), image, 1)
    assert journal.decode(gone, MetadataImage()).deleted == {}


def test_a_journal_entry_of_an_older_version_with_an_extra_field_is_read() -> None:
    topic = TopicImage("t", bytes(16), (PartitionImage(0, 1, 0, 0, (1, 2), (1, 2)),))
    image = MetadataImage(topics={"t": topic}, names={topic.id: "t"})
    former = msgspec.msgpack.encode({"e": 1, "p": {topic.id: [[0, 2, 1, 1, [1, 2], [2], [1], [], [], []]]}})
    [partition] = image.apply(journal.decode(former, image)).topics["t"].partitions
    assert partition == PartitionImage(0, 2, 1, 1, (1, 2), (2,), (1,))


def test_the_known_brokers_in_a_journal_entry_are_read_back() -> None:
    one = BrokerRegistration(1, 5, (), "rack", ("/d",), is_clean=True, boot="b", min_isr=2, machine="m")
    known = journal.Known((1, 3), {1: one}, {1: "b", 2: "before it went"})
    assert journal.decode_known(journal.encode_known(known)) == known
    assert journal.decode_known(b"").brokers == {}
