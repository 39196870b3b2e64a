"""Defects of the SDK's consumer."""

from __future__ import annotations

from pybroker.testing.defects import Patch, defect
from pyclient.consumer.appointments import LOST
from pyclient.consumer.membership import Membership, Partitions
from pyclient.consumer.types import GroupMetadata


def _metadata(self: Membership) -> GroupMetadata:
    return GroupMetadata(self.group_id, self.epoch, self.member_id, self.instance_id)


@defect(
    "pyclient/consumer/tests/test_classic.py"
    "::test_who_was_put_out_stays_who_it_was_until_the_application_polls"
)
def a_consumer_tells_who_it_is_now() -> list[Patch]:
    """Nobody in particular, after it was put out: then its transaction commits what others have done too."""
    return [(Membership, "metadata", _metadata)]


@defect(
    "pyclient/consumer/tests/test_modern.py"
    "::test_who_was_put_out_stays_who_it_was_until_the_application_polls"
)
def a_member_that_was_put_out_joins_again_while_the_application_works() -> list[Patch]:
    """Without a listener: positions are those of another assignment under the batch in hand."""

    async def lose(self: Membership, partitions: Partitions) -> None:
        if partitions:
            self._hold_back(partitions)
            self._heard = self._losses
            await self._change(LOST, partitions, self.owned() - set(partitions))

    return [(Membership, "lose", lose)]
