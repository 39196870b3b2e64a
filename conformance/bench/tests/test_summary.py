"""The first figures of docs/benchmarks.md and of README are those that were measured."""

from __future__ import annotations

from conformance.bench import summary

README = summary.DOCS.parent / "README.md"


def test_the_page_begins_with_the_figures_of_the_last_runs() -> None:
    page = (summary.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert summary.rendered(summary.DOCS) in page


def test_readme_has_the_same_figures() -> None:
    assert summary.start(summary.DOCS) in " ".join(README.read_text(encoding="utf-8").split())


def test_amounts_have_two_digits_and_a_fitting_unit() -> None:
    assert summary.amount(0.306, "s") == "0.31 s"
    assert summary.amount(344.2, "MB") == "344 MB"
    assert summary.amount(11_000, "ms") == "11 s"
    assert summary.amount(1312.6, "/s") == "1,313/s"


def test_rows_that_miss_their_goal_are_counted_by_section() -> None:
    page = (
        "# Page\n## Several, brokers\n| a | 3 | \u2264 2: missed |\n| b | 1 | \u2264 2: reached |\n"
        "## Others\np99: missed by one; another.\n"
    )
    assert summary.missed(page) == ["1 row of [Several, brokers](#several-brokers)", "2 rows of [Others](#others)"]
