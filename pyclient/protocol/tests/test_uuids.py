"""Uuids as Kafka writes them."""

from __future__ import annotations

import pytest

from pyclient.protocol.uuids import ZERO_UUID, from_base64, random_uuid, to_base64


def test_a_uuid_is_encoded_in_22_characters_and_decoded() -> None:
    assert to_base64(ZERO_UUID) == "A" * 22
    value = random_uuid()
    assert len(to_base64(value)) == 22
    assert from_base64(to_base64(value)) == value


def test_random_uuids_differ_and_do_not_begin_with_a_dash() -> None:
    values = {random_uuid() for _ in range(1000)}
    assert len(values) == 1000
    assert not any(to_base64(value).startswith("-") for value in values)


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 24, "é" * 22, "!" * 22])
def test_a_text_that_is_not_a_uuid_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"uuid|base64|ASCII|padded|ascii"):
        from_base64(text)
