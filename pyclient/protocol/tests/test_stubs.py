"""The stubs in the repository match the schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyclient.protocol import stubs

STUBS = stubs.render()


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.name)
def test_the_stub_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == STUBS[path], "run python -m pyclient.protocol.stubs"
