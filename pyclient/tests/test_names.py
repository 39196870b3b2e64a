"""What ``import pyclient`` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pyclient


@pytest.mark.parametrize("module", [pyclient, pyclient.aio])
def test_every_name_that_is_listed_is_there_and_no_other(module) -> None:
    shown = {name for name in dir(module) if not name.startswith("__")}
    assert shown == set(module.__all__)
    assert all(getattr(module, name) is not None for name in shown)


@pytest.mark.nightly
def test_asyncio_face_needs_no_import_of_its_own() -> None:
    program = "import pyclient; print(pyclient.aio.Producer.__name__)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == ["Producer"]


def test_unknown_name_is_told() -> None:
    with pytest.raises(AttributeError, match="pyclient"):
        _ = pyclient.Produzer
