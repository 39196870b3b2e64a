"""Every row has a test, and the report says what the tests showed."""

from __future__ import annotations

from pathlib import Path

from conformance import report, rows
from conformance.recorder import Trial, in_words, load, save


def test_every_row_has_a_test_of_its_id() -> None:
    assert len(rows.sentences()) == 67
    found = rows.by_row(rows.tests())
    assert not [row for row, tests in found.items() if not tests]


def test_names_tell_the_rows() -> None:
    assert rows.of_test("test_s57_s60_a_crash") == ["S57", "S60"]
    assert rows.of_test("test_s100_so_many") == ["S100"]
    assert rows.of_test("test_storage_of_s3") == rows.of_test("test_segments") == []


def test_a_count_is_told_in_words() -> None:
    assert in_words({"case": "acks=1", "acked": 1000, "lost": 7}) == "acks=1: 1,000 acked, 7 lost"
    assert in_words({"kills": 2}) == "2 kills"


def a_row() -> tuple[str, rows.Test]:
    test = next(rows.tests())
    return rows.of_test(test.name)[0], test


def test_a_row_passes_when_all_its_cases_do() -> None:
    row, (path, name) = a_row()
    good, bad = Trial(clients=["PySpark", "kcat"], seconds=2), Trial("failed", is_long=True)
    assert row not in report.unshown({f"{path}::{name}": good})
    both = {f"{path}::{name}[a]": good, f"{path}::{name}[b]": bad}
    assert row in report.unshown(both)
    line = next(line for line in report.rendered(both).splitlines() if line.startswith(f"| {row} "))
    assert "×2" in line
    assert "| kcat | yes |" in line
    assert "**1 of 2 failed** | 1 of 2 | 2 |" in line


def test_the_file_keeps_what_other_runs_showed_and_forgets_tests_that_are_gone(tmp_path: Path) -> None:
    _, (path, name) = a_row()
    trials = {f"{path}::{name}[a]": Trial(counts=[{"case": "", "lost": 1}]), f"{path}::test_s01_gone": Trial()}
    save(tmp_path / "results.json", trials)
    found = load(tmp_path / "results.json")
    assert list(found) == [f"{path}::{name}[a]"]
    assert found[f"{path}::{name}[a]"] == trials[f"{path}::{name}[a]"]
