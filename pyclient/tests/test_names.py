"""The names that ``import pyclient`` offers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import pyclient


@pytest.mark.parametrize("module", [pyclient, pyclient.aio])
def test_every_name_in_all_exists_and_no_other_is_public(module) -> None:
    shown = {name for name in dir(module) if not name.startswith("__")}
    assert shown == set(module.__all__)
    assert all(getattr(module, name) is not None for name in shown)


@pytest.mark.nightly
def test_pyclient_aio_needs_no_separate_import() -> None:
    program = "import pyclient; print(pyclient.aio.Producer.__name__)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == ["Producer"]


@pytest.mark.parametrize("missing", ["cy.produce.record_metadata", "numpy"])
def test_an_import_error_says_how_to_compile_missing_modules(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def load(module: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.delitem(vars(pyclient), "Producer", raising=False)
    monkeypatch.setattr(pyclient, "import_module", load)
    told = "are not compiled: run `sh install.sh`" if missing.startswith("cy.") else "No module named 'numpy'"
    with pytest.raises(ImportError, match=told):
        _ = pyclient.Producer


@pytest.mark.parametrize("method", [pyclient.Consumer.seek, pyclient.aio.Consumer.seek, pyclient.Producer.metrics])
def test_an_inherited_method_is_pickled_under_its_public_name(method: Callable[..., object]) -> None:
    assert pickle.loads(pickle.dumps(method)) is method


def test_an_unknown_name_of_the_module_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="pyclient"):
        _ = pyclient.Produzer
