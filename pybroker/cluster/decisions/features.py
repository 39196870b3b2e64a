"""Finalized features: the feature levels that the whole cluster uses (KIP-584, KIP-1022).

A feature is a name and a level. ``SUPPORTED`` has the levels that this software supports; the *finalized* level is in
force. One node of the store has all finalized levels; its version is the features' *epoch*. Clients follow the highest
epoch that they have seen. A new cluster begins at the highest levels. An existing cluster keeps its levels until a
request raises them. The request is refused while the software of a live broker does not support the new level.

    metadata.version     the release whose requests we speak; it changes nothing here, as metadata is
                         not a log, so it may also go down
    transaction.version  1: flexible state records, 2: each transaction has an epoch of its own
                         (KIP-890)
    group.version        1: the consumer protocol (KIP-848)

Pure functions: the controller writes what they decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from pybroker.cluster.decisions.plan import Plan, Step
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage
from pybroker.store.interface import Create, Set
from pyclient.protocol import errors

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
KAFKA_4_3: Final = 30
"""The metadata.version of 4.3-IV0."""
KAFKA_4_4: Final = 33
"""The metadata.version of 4.4-IV2, the last one before the release."""


class Levels(NamedTuple):
    """The lowest and highest level of a feature that this software supports."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {
    METADATA_VERSION: Levels(KAFKA_4_3, KAFKA_4_4),
    TRANSACTION_VERSION: Levels(0, 2),
    GROUP_VERSION: Levels(0, 1),
}
_FORMER: Final = {**SUPPORTED, METADATA_VERSION: Levels(KAFKA_4_3, KAFKA_4_3)}
"""The features of a broker that registers none."""
LACKING: Final = frozenset({"eligible.leader.replicas.version", "kraft.version", "share.version", "streams.version"})
"""Kafka's other features. ``kafka-features upgrade --release-version`` names them beside metadata.version."""


class UpgradeType(IntEnum):
    """The direction of a level's change; the number is the one in requests."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The new level of one feature; ``upgrade_type`` is the number in the request."""

    name: str
    level: int
    upgrade_type: int


def begin(image: MetadataImage) -> Step | None:
    """Returns the step that gives a new cluster its features; None if the cluster has them already."""
    if image.features:
        return None
    levels = {name: supported.highest for name, supported in SUPPORTED.items()}
    return Step(
        [Create(znodes.FEATURE, znodes.encode_features(levels))], MetadataDelta(features=(0, levels))
    )


def registered() -> tuple[tuple[str, int, int], ...]:
    """Returns the names and levels with which a broker registers."""
    return tuple((name, *levels) for name, levels in SUPPORTED.items())


def update(image: MetadataImage, updates: Sequence[FeatureUpdate]) -> Plan[list[str]]:
    """Applies all updates or none. Raises InvalidUpdateVersion for the first invalid one. An update to a release, which
    includes metadata.version, leaves out the features that this software lacks: the result names them.
    """
    is_release = any(each.name == METADATA_VERSION for each in updates)
    left_out = [each.name for each in updates if is_release and each.name in LACKING]
    levels = dict(image.features)
    for each in updates:
        if each.name in left_out:
            continue
        reason = _reason_against(each, image.features.get(each.name, 0)) or _broker_against(each, image)
        if reason is not None:
            raise errors.InvalidUpdateVersion(
                f"Invalid update version {each.level} for feature {each.name}. {reason}"
            )
        levels[each.name] = each.level
    if levels == image.features:
        return Plan(left_out)
    epoch = image.features_epoch
    write = Set(znodes.FEATURE, znodes.encode_features(levels), epoch)
    return Plan(left_out, [Step([write], MetadataDelta(features=(epoch + 1, levels)))])


def _reason_against(update: FeatureUpdate, current: int) -> str | None:
    supported = SUPPORTED.get(update.name)
    if update.upgrade_type not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if supported is None:
        return "Local controller does not support this feature."
    if not supported.lowest <= update.level <= supported.highest:
        return f"Local controller only supports versions {supported.lowest}-{supported.highest}"
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > current and not is_upgrade:
        return "Can't downgrade to a newer version."
    return None


def _broker_against(update: FeatureUpdate, image: MetadataImage) -> str | None:
    for broker in image.brokers.values():
        levels = {name: Levels(*its) for name, *its in broker.features} or _FORMER
        lowest, highest = levels.get(update.name, (0, 0))
        if not lowest <= update.level <= highest:
            return f"Broker {broker.id} only supports versions {lowest}-{highest}"
    return None
