"""``long`` tests take minutes; they run with ``-m long`` only, their short forms always."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; runs with -m long only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects (does not skip) what was not asked for."""
    if "long" in config.getoption("-m"):
        return
    unwanted = [i for i in items if i.get_closest_marker("long") and HERE in i.path.parents]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]
