"""Tests that take minutes run with ``-m long`` only."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; runs with -m long only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in config.getoption("-m"):
        return
    unwanted = [i for i in items if i.get_closest_marker("long") and HERE in i.path.parents]
    config.hook.pytest_deselected(items=unwanted)
    items[:] = [i for i in items if i not in unwanted]
