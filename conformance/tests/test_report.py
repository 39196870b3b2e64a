"""Every row has a test, and the report says what the tests showed."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.report import page, rows
from conformance.report.recorder import Trial, in_words, load, save


def test_every_row_has_a_test_of_its_id() -> None:
    assert len(rows.sentences()) == 68
    found = rows.by_row(rows.tests())
    assert not [row for row, tests in found.items() if not tests]


def test_the_name_of_a_test_contains_its_row() -> None:
    assert rows.of_test("test_s57_s60_a_crash") == ["S57", "S60"]
    assert rows.of_test("test_s100_so_many") == ["S100"]
    assert rows.of_test("test_storage_of_s3") == rows.of_test("test_segments") == []


def test_a_count_is_written_in_words() -> None:
    assert in_words({"case": "acks=1", "acked": 1000, "lost": 7}) == "acks=1: 1,000 acked, 7 lost"
    assert in_words({"kills": 2}) == "2 kills"


def a_row() -> tuple[str, str]:
    """Returns a row's id, and the start of its cases' ids."""
    test = next(rows.tests())
    return rows.of_test(test.name)[0], f"{test.path}::{test.name}"


def line_of(row: str, trials: dict[str, Trial], due: list[str]) -> str:
    return next(line for line in page.rendered(trials, due).splitlines() if line.startswith(f"| {row} "))


def test_a_row_passes_if_all_its_cases_pass() -> None:
    row, name = a_row()
    good, bad = Trial(clients=["PySpark", "kcat"], seconds=2), Trial("failed", is_campaign=True)
    assert row not in page.unshown({name: good}, [name])
    both = {f"{name}[a]": good, f"{name}[b]": bad}
    assert row in page.unshown(both, [*both])
    line = line_of(row, both, [*both])
    assert "×2" in line
    assert "| kcat | yes |" in line
    assert "**1 of 2 failed** | 1 of 2 | 2 |" in line


def test_a_row_does_not_pass_while_one_of_its_cases_was_never_run() -> None:
    row, name = a_row()
    trials = {f"{name}[a]": Trial()}
    due = [f"{name}[a]", f"{name}[b]", f"{name}_of_another_function"]
    assert row in page.unshown(trials, due)
    assert "| **2 of 3 not run** |" in line_of(row, trials, due)
    assert "| **not run** |" in line_of(row, {}, due)


def test_results_of_another_commit_are_marked_as_old() -> None:
    row, name = a_row()
    trials = {f"{name}[a]": Trial(commit="new", at="2026-02"), f"{name}[b]": Trial(commit="aged", at="2026-01")}
    assert row not in page.unshown(trials, [*trials])
    assert "| passed, 1 of 2 old |" in line_of(row, trials, [*trials])
    told = "In 1 row, some cases ran before `new`; the Result column marks them *old*."
    assert told in page.rendered(trials, [*trials])


def test_a_run_of_all_cases_replaces_earlier_results() -> None:
    _, name = a_row()
    new, old = Trial(commit="new", at="2026-02"), Trial(commit="aged", at="2026-01")
    trials = {f"{name}[a]": new, f"{name}[b]": new, f"{name}[gone]": old}
    assert page.current(trials, [f"{name}[a]", f"{name}[b]"]) == {f"{name}[a]": new, f"{name}[b]": new}
    assert page.current(trials, [f"{name}[a]", f"{name}[c]"]) == trials


@pytest.mark.nightly
def test_pytest_lists_all_cases_of_all_rows_including_slow_ones() -> None:
    due = page.collected()
    assert {page.test_of(node_id) for node_id in due} <= set(rows.tests())
    assert all(row.missing for row in page.by_row({}, due).values())
    assert [node_id for node_id in due if "test_s100_" in node_id and "5000" in node_id]


def test_the_file_keeps_results_of_other_runs_and_drops_deleted_tests(tmp_path: Path) -> None:
    _, name = a_row()
    trials = {f"{name}[a]": Trial(counts=[{"case": "", "lost": 1}]), f"{name}_gone": Trial()}
    save(tmp_path / "results.json", trials)
    found = load(tmp_path / "results.json")
    assert list(found) == [f"{name}[a]"]
    assert found[f"{name}[a]"] == trials[f"{name}[a]"]
