from __future__ import annotations

from pathlib import Path

from docs.apis import page

DOCS = Path(__file__).resolve().parents[1]


def test_the_page_of_apis_says_what_is_served() -> None:
    assert (DOCS / "apis.md").read_text(encoding="utf-8") == page()
