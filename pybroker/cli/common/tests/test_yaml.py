"""Documents as YAML."""

from __future__ import annotations

import pytest

from pybroker.cli.common.yaml_text import as_yaml


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": None, "c": True, "d": 1.5}, "a: 1\nb: null\nc: true\nd: 1.5\n"),
        ([{"a": [1, {"b": "x"}], "c": "y"}, 2], '- a:\n    - 1\n    - b: x\n  c: "y"\n- 2\n'),
        ({"empty": {}, "none": [], "tuple": (1, 2)}, "empty: {}\nnone: []\ntuple:\n  - 1\n  - 2\n"),
        ([[1, 2], [3]], "- - 1\n  - 2\n- - 3\n"),
        ([], "[]\n"),
    ],
)
def test_yaml_output_shows_structure_by_indentation(value: object, text: str) -> None:
    assert as_yaml(value) == text


@pytest.mark.parametrize("text", ["topic-1", "a.b_c/d", "PLAINTEXT", "_x"])
def test_yaml_output_does_not_quote_plain_words(text: str) -> None:
    assert as_yaml([text]) == f"- {text}\n"


@pytest.mark.parametrize(
    "text",
    [
        *("", "yes", "No", "null", "true", "y", "1", "1e3", "0x1f", "2026-11-22"),
        *("a: b", "- a", "a #b", "~", " a", "a\nb", "@a", "é"),
    ],
)
def test_yaml_output_quotes_ambiguous_words(text: str) -> None:
    shown = as_yaml([text])
    assert shown.startswith('- "')
    assert shown.endswith('"\n')
    assert shown.count("\n") == 1
