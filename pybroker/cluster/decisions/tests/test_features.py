"""Finalized features: which levels may follow which, and that levels survive restarts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pybroker.cluster.decisions import features
from pybroker.cluster.decisions.features import (
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    FeatureUpdate,
    UpgradeType,
)
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage
from pybroker.cluster.node import ClusterNode
from pybroker.cluster.tests.one_store import Cluster, Run
from pyclient.protocol import errors

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
OLD = BrokerRegistration(1, 1, ())
"""The registration of a broker that knows only metadata.version 30."""
NEW = OLD._replace(features=features.registered())
IMAGE = MetadataImage(features={TRANSACTION_VERSION: 1, GROUP_VERSION: 1}, features_epoch=4)


def test_a_new_cluster_has_the_highest_feature_levels() -> None:
    step = features.begin(MetadataImage())
    assert step is not None
    assert step.delta.features == (0, {METADATA_VERSION: 33, TRANSACTION_VERSION: 2, GROUP_VERSION: 1})
    assert features.begin(IMAGE) is None


def test_a_feature_update_raises_the_epoch_and_keeps_other_features() -> None:
    [step] = features.update(IMAGE, [FeatureUpdate(TRANSACTION_VERSION, 2, UP)]).steps
    assert step.delta.features == (5, {TRANSACTION_VERSION: 2, GROUP_VERSION: 1})


def test_a_feature_update_to_the_current_level_changes_nothing() -> None:
    assert not features.update(IMAGE, [FeatureUpdate(TRANSACTION_VERSION, 1, SAFE)]).steps


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_feature_downgrade_needs_the_downgrade_type(kind: int) -> None:
    with pytest.raises(errors.InvalidUpdateVersion, match="Can't downgrade the version"):
        features.update(IMAGE, [FeatureUpdate(GROUP_VERSION, 0, UP)])
    [step] = features.update(IMAGE, [FeatureUpdate(GROUP_VERSION, 0, kind)]).steps
    assert step.delta.features == (5, {TRANSACTION_VERSION: 1, GROUP_VERSION: 0})


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        (TRANSACTION_VERSION, 2, SAFE),
        (TRANSACTION_VERSION, 3, UP),
        (TRANSACTION_VERSION, -1, SAFE),
        (TRANSACTION_VERSION, 2, 0),
        (METADATA_VERSION, 29, SAFE),
        (METADATA_VERSION, 34, UP),
        ("share.version", 1, UP),
    ],
)
def test_one_invalid_feature_update_refuses_the_whole_request(name: str, level: int, kind: int) -> None:
    good = FeatureUpdate(GROUP_VERSION, 0, SAFE)
    with pytest.raises(errors.InvalidUpdateVersion, match=f"Invalid update version {level} for feature {name}"):
        features.update(IMAGE, [good, FeatureUpdate(name, level, kind)])


RELEASE_4_4 = [FeatureUpdate(METADATA_VERSION, 33, UP), FeatureUpdate("share.version", 2, UP)]


def test_features_of_a_cluster_of_the_previous_version_can_be_upgraded_and_downgraded() -> None:
    image = replace(IMAGE, features={**IMAGE.features, METADATA_VERSION: 30}, brokers={1: NEW, 2: NEW})
    assert features.begin(image) is None
    for update in (FeatureUpdate(METADATA_VERSION, 33, UP), FeatureUpdate(METADATA_VERSION, 30, SAFE)):
        [step] = features.update(image, [update]).steps
        image = image.apply(step.delta)
        assert image.features == {**IMAGE.features, METADATA_VERSION: update.level}


def test_a_broker_of_the_previous_version_prevents_a_feature_upgrade() -> None:
    image = replace(IMAGE, features={**IMAGE.features, METADATA_VERSION: 30}, brokers={1: NEW, 2: OLD._replace(id=2)})
    with pytest.raises(errors.InvalidUpdateVersion, match="Broker 2 only supports versions 30-30"):
        features.update(image, [FeatureUpdate(METADATA_VERSION, 33, UP)])
    assert features.update(image, [FeatureUpdate(GROUP_VERSION, 0, SAFE)]).steps


def test_a_feature_update_to_a_release_leaves_out_unsupported_features() -> None:
    plan = features.update(IMAGE, RELEASE_4_4)
    assert plan.results == ["share.version"]
    assert plan.steps[0].delta.features == (5, {**IMAGE.features, METADATA_VERSION: 33})


def test_a_registration_lists_the_features_of_a_broker_in_kafkas_format() -> None:
    data = znodes.encode_broker(NEW, 0)
    assert json.loads(data)["features"][METADATA_VERSION] == {"min_version": 30, "max_version": 33}
    assert znodes.decode_broker(1, data, 1).features == features.registered()
    assert znodes.decode_broker(1, znodes.encode_broker(OLD, 0), 1).features == ()


def test_kafka_with_zookeeper_reads_the_feature_node() -> None:
    data = znodes.encode_features({TRANSACTION_VERSION: 2})
    assert data == b'{"version":2,"status":1,"features":{"transaction.version":2}}'
    assert znodes.decode_features(data) == {TRANSACTION_VERSION: 2}


def test_feature_levels_survive_restarts_and_their_epoch_only_grows(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        assert finalized(node) == (0, 2)
        await node.controller.update_features([FeatureUpdate(TRANSACTION_VERSION, 1, SAFE)])
        assert finalized(node) == (1, 1)
        await node.controller.update_features([FeatureUpdate(TRANSACTION_VERSION, 2, UP)], validate_only=True)
        await node.leave()
        await store.close()
        node, store, _ = await cluster.broker()
        assert finalized(node) == (1, 1)
        await store.close()

    run(scenario)


def finalized(node: ClusterNode) -> tuple[int, int]:
    image = node.metadata.image
    return image.features_epoch, image.features[TRANSACTION_VERSION]
