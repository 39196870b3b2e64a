"""What ``import pyclient`` offers."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

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


@pytest.mark.parametrize("missing", ["cy.produce.record_metadata", "numpy"])
def test_what_is_not_compiled_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def load(module: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.delitem(vars(pyclient), "Producer", raising=False)
    monkeypatch.setattr(pyclient, "import_module", load)
    told = "are not compiled: run `sh install.sh`" if missing.startswith("cy.") else "No module named 'numpy'"
    with pytest.raises(ImportError, match=told):
        _ = pyclient.Producer


def test_unknown_name_is_told() -> None:
    with pytest.raises(AttributeError, match="pyclient"):
        _ = pyclient.Produzer
