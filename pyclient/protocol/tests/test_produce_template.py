"""Frames of Produce requests made from a template equal those that the codec encodes."""

from __future__ import annotations

import pytest

from cy.produce.produce_template import PROBE, ProduceTemplate
from cy.produce.producer_batch import ProducerBatch, begin
from cy.wire.buffer import EncodeError
from pyclient.protocol import Produce

SIZES = (1, 20, 127, 16_300, 16_400, 100_000, 3_000_000)


def request(records: bytes | None, acks: int = -1, topic: str = "flights") -> Produce.Request:
    row = Produce.Request.PartitionProduceData(index=3, records=records)
    data = Produce.Request.TopicProduceData(name=topic, topic_id=b"i" * 16, partition_data=[row])
    return Produce.Request(transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=[data])


def sealed(size: int) -> ProducerBatch:
    batch = begin("flights", 3)
    batch.append(1_000, None, b"v" * size)
    batch.seal()
    return batch


def joined(frame: object) -> bytes:
    return frame if isinstance(frame, bytes) else b"".join(frame)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(Produce.min_version, Produce.max_version + 1))
def test_a_frame_from_a_template_equals_the_one_that_the_codec_encodes(version: int) -> None:
    template = ProduceTemplate(Produce.request_codec, request(PROBE), silent=False)
    for number, size in enumerate(SIZES):
        batch = sealed(size)
        wanted = Produce.encode_request(version, number, "client", request(batch.records))
        assert joined(template.cast(batch).encode(version, number, "client")) == joined(wanted)


def test_a_template_is_rebuilt_for_another_version_or_client_id() -> None:
    template, batch = ProduceTemplate(Produce.request_codec, request(PROBE), silent=False), sealed(5)
    for version, client in [(13, "a"), (8, "a"), (8, None), (11, "b"), (13, "a")]:
        wanted = Produce.encode_request(version, 7, client, request(batch.records))
        assert template.cast(batch).encode(version, 7, client) == wanted


def test_large_batches_are_not_copied() -> None:
    template, batch = ProduceTemplate(Produce.request_codec, request(PROBE), silent=False), sealed(20_000)
    assert any(piece is batch.records for piece in template.cast(batch).encode(13, 0, "c"))


def test_a_frame_keeps_the_bytes_that_the_batch_had() -> None:
    template, batch = ProduceTemplate(Produce.request_codec, request(PROBE), silent=False), sealed(5)
    batch.assign(7, 0, 0)
    cast, before = template.cast(batch), batch.records
    batch.attempts = 1
    batch.assign(7, 1, 5)
    assert batch.records != before
    assert cast.encode(13, 0, "c") == Produce.encode_request(13, 0, "c", request(before))


def test_an_unsealed_batch_or_an_invalid_request_is_refused() -> None:
    with pytest.raises(ValueError, match="not sealed"):
        ProduceTemplate(Produce.request_codec, request(PROBE), silent=False).cast(begin("flights", 3))
    template = ProduceTemplate(Produce.request_codec, request(PROBE, acks=1 << 20), silent=False)
    with pytest.raises(EncodeError):
        template.cast(sealed(1)).encode(13, 0, "c")


def test_a_request_with_acks_0_expects_no_response() -> None:
    assert ProduceTemplate(Produce.request_codec, request(PROBE, acks=0), silent=True).cast(sealed(1)).silent
