"""The suite imports our code only where its contract (setup.cfg) allows it, and by a statement that the linter sees."""

from __future__ import annotations

import re

import pytest

from conformance.tests.test_named_numbers import ROOT

OURS = re.compile(r"""(?:import_module|__import__|find_spec)\(\s*f?["'](?:cy|proofs|pybroker|pyclient)\b""")


def test_no_own_module_is_imported_by_a_string() -> None:
    paths = [path for folder in ("conformance", "harness") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert [path.name for path in paths if path.name != "test_black_box.py" and OURS.search(path.read_text())] == []


@pytest.mark.parametrize("text", ['import_module("pyclient")', "__import__('pybroker.log')", 'find_spec("cy.wire")'])
def test_an_import_by_a_string_is_found(text: str) -> None:
    assert OURS.search(text)
