"""The page about Spark lists the options that there are."""

from __future__ import annotations

from docs.tests.blocks import ROOT
from pyclient.spark.options import OPTIONS, Option, Use

PLACES = {
    Use.BATCH_READ: "read",
    Use.STREAM_READ: "readStream",
    Use.BATCH_WRITE: "write",
    Use.STREAM_WRITE: "writeStream",
}


def row(option: Option) -> str:
    """As the page has it."""
    default = "" if option.default is None else f"`{str(option.default).lower()}`"
    places = ", ".join(f"`{place}`" for use, place in PLACES.items() if use in option.use)
    return f"| `{option.name}` | {places} | {default} | {option.doc} |"


def test_the_page_has_a_row_for_each_option_and_no_other() -> None:
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if line.startswith("| `") and line.count("|") == 5]
    assert shown == [row(option) for option in OPTIONS]
