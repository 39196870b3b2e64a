"""The outcome that an awaiting task gets, also if its event loop is closed."""

from __future__ import annotations

import asyncio

from cy.produce.producer_batch import begin
from pyclient.producer.awaiting import _one_more, _wait


class DoneMeanwhile:
    """Deliveries whose last batch completes between two checks of the awaiting thread."""

    def __init__(self):
        self.looks = iter((False, True))

    @property
    def done(self):
        return next(self.looks)

    def pending(self):
        return []

    def outcome(self):
        return 3

    def __await__(self):
        return _wait(self)


def test_a_delivery_may_complete_between_two_checks():
    async def work():
        return await DoneMeanwhile()

    assert asyncio.run(work()) == 3


def test_a_closed_event_loop_is_not_notified(caplog):
    batch = begin("t", 0)
    report = batch.append(1, None, b"")
    loop = asyncio.new_event_loop()

    async def work():
        return next(_one_more(report))

    loop.run_until_complete(work())
    loop.close()
    loop.is_closed = lambda: False  # as it was when the other thread looked
    batch.complete(0)
    del loop.is_closed
    assert report.done
    assert caplog.records == []
