"""A test's tier is read from what it starts."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from conformance.tiers import STARTED, started

FILE = PurePath("conformance/scenarios/test_one.py")


@pytest.mark.parametrize(
    ("fixtures", "parameters", "kinds"),
    [
        (["broker", "topic", "wire"], {}, []),
        (["broker", "driver"], {"driver": "confluent"}, []),
        (["broker", "driver"], {"driver": "java"}, ["java"]),
        (["client"], {"client": ("java", "consumer")}, ["java"]),
        (["client"], {"client": ("pyclient", "consumer")}, []),
        (["by_spark", "zookeeper_cluster"], {}, ["cluster", "spark"]),
        (["new_broker"], {}, ["process"]),
    ],
)
def test_fixtures_and_clients_decide_the_tier_of_a_test(
    fixtures: list[str], parameters: dict[str, object], kinds: list[str]
) -> None:
    assert started(FILE, fixtures, parameters) == kinds
    assert {*kinds} <= STARTED.keys()


def test_a_folder_decides_the_tier_of_a_test() -> None:
    assert started(PurePath("/anywhere/pyclient/spark/tests/test_filters.py"), [], {}) == ["spark"]
