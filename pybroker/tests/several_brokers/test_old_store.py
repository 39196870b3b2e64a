"""The logs have newer data than a store that was restored from a backup."""

from __future__ import annotations

from pathlib import Path

from pybroker.cluster.metadata import znodes
from pybroker.log.appending import Origin
from pybroker.log.tests.helpers import NOW, batch
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_replication import create, has_led


def test_a_new_producer_gets_no_id_that_a_log_knows(tmp_path: Path) -> None:
    """The defect: its first batch counted as a retry of the other producer's; it was acknowledged, and not written."""

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            await create(broker, 1, topic="t")
            await cluster.until(lambda: has_led(broker))
            known = [await broker.producer_ids.next() for _ in range(3)][-1]
            records = batch(b"x", producer_id=known, producer_epoch=0, base_sequence=0)
            broker.replicas.append(broker.replicas.find("t", 0).topic_partition, records, 1, NOW, Origin.CLIENT)
            await cluster.stop(1)
            await (await cluster.store.connect()).delete(znodes.PRODUCER_ID_BLOCK)
            broker = await cluster.start(1)
            assert await broker.producer_ids.next() == known + 1

    in_loop(scenario)
