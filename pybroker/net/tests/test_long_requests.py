"""Neither a request nor a number of requests blocks the loop."""

from __future__ import annotations

from cy.wire.buffer import DecodeError
from proofs.garbage import leaves_nothing
from pybroker.net.tests.harness import ECHO, WORK, Answer, Harness, frame, hold_the_loop, scenario


@scenario()
async def test_many_pipelined_requests_leave_the_event_loop_free_in_between(harness: Harness) -> None:
    served_by_then: list[int] = []

    def busy(request: bytes) -> Answer:
        harness.seen.append(request)
        if len(harness.seen) == 1:
            harness.loop.call_soon(lambda: served_by_then.append(len(harness.seen)))
        hold_the_loop(0.002)
        return Answer(request)

    harness.on_echo = busy
    client = await harness.connect()
    client.writer.write(b"".join(frame(ECHO, number, b"") for number in range(100)))
    assert [(await client.receive())[0] for _ in range(100)] == list(range(100))
    assert served_by_then[0] < 50


@scenario()
async def test_a_request_that_takes_long_to_decode_is_answered_in_order(harness: Harness) -> None:
    client = await harness.connect()
    client.send(ECHO, 1, b"before")
    client.send(ECHO, 2, b"large" + bytes(300_000))
    client.send(ECHO, 3, b"after")
    client.send(WORK, 4, b"large, at once")
    client.send(ECHO, 5, b"last")
    await harness.until(lambda: len(harness.waiting) == 1)
    harness.waiting[0].set_result(b"!")
    assert [await client.receive() for _ in range(5)] == [
        (1, b"before"),
        (2, b"large" + bytes(300_000)),
        (3, b"after"),
        (4, b"large, at once!"),
        (5, b"last"),
    ]
    assert [seen[:6] for seen in harness.seen] == [b"before", b"large\0", b"after", b"large,", b"last"]


@scenario()
async def test_a_large_request_that_cannot_be_decoded_closes_its_connection(harness: Harness) -> None:
    client = await harness.connect()
    client.send(ECHO, 1, b"large and bad")
    assert await client.is_closed()


@scenario()
async def test_a_large_request_that_is_refused_leaves_nothing_to_the_garbage_collector(harness: Harness) -> None:
    """The collector seldom examines all objects, and would keep the request's bytes until then."""
    with leaves_nothing(DecodeError):
        client = await harness.connect()
        client.send(ECHO, 1, b"large and bad")
        assert await client.is_closed()


@scenario()
async def test_a_client_that_disconnects_while_its_large_request_is_decoded_leaves_no_connection(
    harness: Harness
) -> None:
    client = await harness.connect()
    client.send(ECHO, 1, b"large" + bytes(300_000))
    await client.writer.drain()
    client.reset()
    await harness.until(lambda: not harness.server.connections)
