"""The tables of archives are kept until the file changes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest

from pyclient.spark import archives


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields an archive on the path, whose table Python has already read."""
    path = tmp_path / "some.zip"
    write(path, first="x = 1", gone="x = 4")
    monkeypatch.syspath_prepend(str(path))
    assert importlib.util.find_spec("pybroker_test_nothing") is None
    yield path
    sys.path_importer_cache.pop(str(path), None)


def write(path: Path, **modules: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in modules.items():
            file.writestr(f"pybroker_test_{name}.py", text)


def reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list to which each archive is added whose table Python will read again."""
    found: list[str] = []
    original = zipimporter.invalidate_caches

    def counted(self: zipimporter) -> None:
        found.append(self.archive)
        original(self)

    monkeypatch.setattr(zipimporter, "invalidate_caches", counted)
    return found


def test_an_unchanged_archive_is_not_read_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reads(archive, monkeypatch)
    archives.keep()
    archives.keep()
    importlib.invalidate_caches()
    assert found == []
    assert importlib.import_module("pybroker_test_first").x == 1


def test_a_changed_archive_is_read_again_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reads(archive, monkeypatch)
    archives.keep()
    write(archive, second="x = 2", third="x = 3")
    importlib.invalidate_caches()
    importlib.invalidate_caches()
    assert found == [str(archive)]
    assert importlib.import_module("pybroker_test_second").x == 2


def test_a_deleted_archive_is_forgotten(archive: Path) -> None:
    archives.keep()
    os.unlink(archive)
    importlib.invalidate_caches()
    assert importlib.util.find_spec("pybroker_test_gone") is None
