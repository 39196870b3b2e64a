"""How a number looks in the tables of docs/benchmarks.md."""

from __future__ import annotations

import pytest

from conformance.bench import report


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (1.5, "1.5"), (352.4, "352"), (999.6, "1,000"), (1034.0, "1,030"), (32_441.0, "32,400"),
     (-2081.0, "-2,080")],
)
def test_a_number_has_three_significant_digits_and_no_exponent(value: float, text: str) -> None:
    assert report.number(value) == text
