"""ApiVersions returns features; UpdateFeatures changes them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pybroker.cluster.decisions import features
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.handlers import api_versions, update_features
from pybroker.handlers.tests.harness import Node
from pyclient.protocol import ApiVersions, UpdateFeatures, errors

TRANSACTIONS = features.TRANSACTION_VERSION


class FakeController:
    """Decides as the real controller does, without a store."""

    is_controller = True

    def __init__(self, failure: errors.KafkaError | None = None) -> None:
        self.image = MetadataImage(features={TRANSACTIONS: 1}, features_epoch=3)
        self.failure = failure

    async def update_features(self, updates: list[features.FeatureUpdate], *, validate_only: bool) -> list[str]:
        if self.failure is not None:
            raise self.failure
        plan = features.update(self.image, updates)
        for step in plan.steps:
            if not validate_only:
                self.image = self.image.apply(step.delta)
        return plan.results


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    node = make_node()
    node.controller = FakeController()
    return node


def told(node: Node, version: int) -> tuple[dict[str, tuple[int, int]], dict[str, int], int]:
    node.connection = SimpleNamespace(client_software_name="", client_software_version="")
    node.metadata.image = node.controller.image
    request = ApiVersions.Request(client_software_name="c", client_software_version="1")
    answer = node.ask(api_versions, request, version)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    return supported, finalized, answer.finalized_features_epoch


def update(node: Node, level: int, version: int = 2, **fields: object) -> UpdateFeatures.Response:
    key = UpdateFeatures.Request.FeatureUpdateKey(feature=TRANSACTIONS, max_version_level=level, **fields)
    return node.ask(update_features, UpdateFeatures.Request(feature_updates=[key]), version)


def test_api_versions_returns_the_features_and_their_epoch(node: Node) -> None:
    assert told(node, 4) == (dict(features.SUPPORTED), {TRANSACTIONS: 1}, 3)


def test_api_versions_3_leaves_out_features_whose_minimum_level_is_zero(node: Node) -> None:
    assert told(node, 3)[0] == {features.METADATA_VERSION: (30, 33)}


def test_a_feature_at_level_zero_is_not_returned_as_finalized(node: Node) -> None:
    update(node, 0, upgrade_type=features.UpgradeType.SAFE_DOWNGRADE)
    assert told(node, 4)[1:] == ({}, 4)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, None),
        (None, 7, None),
        ("cluster", 1, None),
        ("cluster", 2, errors.RebootstrapRequired),
        ("other", 1, errors.RebootstrapRequired),
    ],
)
def test_a_client_that_expects_another_broker_or_cluster_must_rebootstrap(
    node: Node, cluster_id: str | None, node_id: int, error: type[errors.KafkaError] | None
) -> None:
    node.connection = SimpleNamespace(client_software_name="", client_software_version="")
    node.cluster_id, node.node_id = "cluster", 1
    request = ApiVersions.Request(
        client_software_name="c", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    answer = node.ask(api_versions, request, 5)
    assert answer.error_code == (0 if error is None else error.code)
    assert bool(answer.api_keys) is (error is None)


@pytest.mark.parametrize(("version", "names"), [(0, [TRANSACTIONS]), (1, [TRANSACTIONS]), (2, [])])
def test_update_features_returns_no_result_per_feature_from_version_2_on(
    node: Node, version: int, names: list[str]
) -> None:
    answer = update(node, 2, version)
    assert answer.error_code == 0
    assert [each.feature for each in answer.results] == names


def test_update_features_version_0_downgrades_only_with_the_flag_allow_downgrade(node: Node) -> None:
    assert update(node, 0, 0).error_code == errors.InvalidUpdateVersion.code
    assert update(node, 0, 0, allow_downgrade=True).error_code == 0


def test_a_refused_update_of_features_names_the_feature_at_fault(node: Node) -> None:
    answer = update(node, 9)
    assert answer.error_code == errors.InvalidUpdateVersion.code
    assert answer.error_message.startswith("The update failed for all features")
    assert TRANSACTIONS in answer.error_message


@pytest.mark.parametrize(
    ("failure", "told"),
    [(errors.NotController(), errors.NotController), (errors.UnknownServerError(), errors.FeatureUpdateFailed)],
)
def test_update_features_reports_a_write_that_failed(
    node: Node, failure: errors.KafkaError, told: type[errors.KafkaError]
) -> None:
    node.controller = FakeController(failure)
    assert update(node, 2).error_code == told.code
