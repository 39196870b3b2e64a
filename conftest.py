"""What all suites have in common: ``--broker`` says which broker the tests talk to."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", choices=["kafka", "ours"], default="ours", help="which broker to test")
