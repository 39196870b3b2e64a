"""Defects with a store that is older than the logs."""

from __future__ import annotations

from collections.abc import Iterable

from proofs.defects import Patch, defect
from pybroker.cluster.producer_ids import ProducerIds


@defect("pybroker/tests/several_brokers/test_old_store.py")
def producer_ids_begin_where_an_old_store_says() -> list[Patch]:
    """After the restore of a backup, new producers get ids that logs know. Brokers take their first batches for
    duplicates.
    """

    async def skip_nothing(self: ProducerIds, known: Iterable[int]) -> None:
        pass

    return [(ProducerIds, "skip", skip_nothing)]
