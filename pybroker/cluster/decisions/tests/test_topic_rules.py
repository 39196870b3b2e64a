"""min.insync.replicas as the controller knows it: that of topics, of all brokers, and of each broker."""

from __future__ import annotations

import pytest

from pybroker.cluster.decisions.topic_rules import TopicRules
from pybroker.cluster.decisions.topics import TopicController
from pybroker.cluster.metadata.image import (
    DEFAULT_BROKER,
    NO_LEADER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from pybroker.config import BrokerConfig, stored_topic_config

PARTITION = PartitionImage(0, 1, 0, 0, (1, 2, 3), (1, 2, 3))
TOPIC = TopicImage("t", b"t" * 16, (PARTITION,), {})
DIRECTORY = {1: "m a", 2: "m b", 3: "m c"}


def registered(node_id: int, min_isr: int = 1, epoch: int = 1, boot: str = "") -> BrokerRegistration:
    return BrokerRegistration(node_id, epoch, (), boot=boot or DIRECTORY[node_id], min_isr=min_isr)


def image_of(*brokers: BrokerRegistration, **configs: str) -> MetadataImage:
    """Returns an image. ``configs`` are dynamic settings of min.insync.replicas, for ``all`` or for a broker
    (``of_2``).
    """
    names = {DEFAULT_BROKER if name == "all" else name.removeprefix("of_"): text for name, text in configs.items()}
    delta = MetadataDelta(
        changed={"t": TOPIC},
        brokers={broker.id: broker for broker in brokers},
        configs={(ResourceType.BROKER, name): {"min.insync.replicas": text} for name, text in names.items()},
    )
    return MetadataImage().apply(delta)


def rules(image: MetadataImage) -> TopicRules:
    return TopicRules(BrokerConfig({}), image, image.brokers)


def test_the_smallest_min_isr_setting_of_the_live_replicas_is_used() -> None:
    assert rules(image_of(registered(1, 2), registered(2, 3))).min_isr(TOPIC, PARTITION) == 2
    assert rules(image_of(registered(1, 2), registered(2, 1))).min_isr(TOPIC, PARTITION) == 1


def test_the_min_isr_setting_of_a_broker_without_a_replica_is_ignored() -> None:
    image = image_of(registered(1, 2), BrokerRegistration(4, 1, (), min_isr=1))
    assert rules(image).min_isr(TOPIC, PARTITION) == 2


@pytest.mark.parametrize(("configs", "found"), [({"all": "3"}, 3), ({"of_2": "1"}, 1), ({"all": "3", "of_2": "1"}, 1)])
def test_dynamic_settings_override_the_static_settings_of_a_broker(configs: dict[str, str], found: int) -> None:
    image = image_of(registered(1, 2), registered(2, 2), **configs)
    assert rules(image).min_isr(TOPIC, PARTITION) == found


def test_the_setting_of_a_topic_overrides_those_of_all_brokers() -> None:
    image = image_of(registered(1, 2), all="3")
    assert rules(image).min_isr(TOPIC._replace(configs={"min.insync.replicas": "1"}), PARTITION) == 1


@pytest.mark.parametrize("text", ["two", "0", "1_0", "2147483648"])
def test_an_unreadable_setting_is_ignored_by_controller_and_leaders(text: str) -> None:
    """If leaders used another number, they would commit with fewer replicas than the controller expects."""
    image = image_of(registered(1, 2), registered(2, 2), all=text, of_2=text)
    strange = TOPIC._replace(configs={"min.insync.replicas": text, "of.another.version": "x"})
    assert rules(image).min_isr(strange, PARTITION) == 2
    assert stored_topic_config(BrokerConfig({"min.insync.replicas": 2}), strange.configs).min_insync_replicas == 2
    known = TOPIC._replace(configs={"min.insync.replicas": "3", "of.another.version": "x"})
    assert rules(image).min_isr(known, PARTITION) == 3
    assert stored_topic_config(BrokerConfig({}), known.configs).min_insync_replicas == 3
    assert not rules(image).is_unclean_allowed(known)


def after(image: MetadataImage, *brokers: BrokerRegistration) -> tuple[MetadataImage, list[str]]:
    """Returns the image after only these brokers stay alive, and the partitions in doubt."""
    alive = {each.id: each for each in brokers}
    plan = TopicController(BrokerConfig({}), bytes, lambda: 0).change_brokers(image, alive)
    for step in plan.steps:
        image = image.apply(step.delta)
    return image, [str(partition) for partition in plan.results.doubtful]


def partition_of(image: MetadataImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


def after_three_is_empty(min_isr: int) -> tuple[MetadataImage, list[str]]:
    """Returns the result after brokers 1 and 2 die, and then 3, which comes back alone without its data folder."""
    one, two, three = (registered(each, min_isr) for each in (1, 2, 3))
    image = image_of(one, two, three)
    for left in ((two, three), (three,), ()):
        image, _ = after(image, *left)
    return after(image, registered(3, min_isr, epoch=9, boot="m another"))


def test_case_16_a_broker_back_without_its_data_does_not_lead_with_min_isr_2() -> None:
    """The defect: the controller ignored min.insync.replicas=2 in the brokers' own settings. 3 led without records."""
    image, doubtful = after_three_is_empty(min_isr=2)
    waits = partition_of(image)
    assert (waits.leader, waits.isr, doubtful) == (NO_LEADER, (2,), [])
    image, doubtful = after(image, registered(2, 2, epoch=10), image.brokers[3])
    assert (partition_of(image).leader, doubtful) == (2, [])


def test_elections_are_counted_and_logged() -> None:
    image = image_of(registered(1, 2), registered(2, 2), registered(3, 2))
    found = []
    for left in ((2, 3), (3,), ()):
        brokers = {each: registered(each, 2) for each in left}
        plan = TopicController(BrokerConfig({}), bytes, lambda: 0).change_brokers(image, brokers)
        for step in plan.steps:
            image = image.apply(step.delta)
        found.append((plan.results.moved, [str(each) for each in plan.results.offline], plan.results.doubtful))
    assert found == [(1, [], []), (1, [], []), (0, ["t-0"], [])]


def test_a_leader_without_its_data_is_logged() -> None:
    image, doubtful = after_three_is_empty(min_isr=1)
    assert (partition_of(image).leader, doubtful) == (3, ["t-0"])


def test_an_unclean_election_is_logged() -> None:
    image = image_of(registered(1), registered(2), registered(3))
    for left in ((2, 3), (3,), ()):
        image, _ = after(image, *(registered(each) for each in left))
    allowed = TOPIC._replace(configs={"unclean.leader.election.enable": "true"}, partitions=(partition_of(image),))
    image = image.apply(MetadataDelta(changed={"t": allowed}))
    image, doubtful = after(image, registered(1, epoch=7))
    assert (partition_of(image).leader, doubtful) == (1, ["t-0"])


def test_no_replica_stays_eligible_if_the_leader_commits_alone() -> None:
    """The leader was restarted in order with other settings, so quickly that the controller saw only the new process.
    """
    one, two = registered(1, 2), registered(2, 2)
    image, _ = after(image_of(one, two), one)
    assert partition_of(image).elr == (2, 3)
    image, _ = after(image, registered(1, 1, epoch=20)._replace(is_clean=True))
    alone = partition_of(image)
    assert (alone.leader, alone.isr, alone.elr) == (1, (1,), ())
