"""Simulates machines, their processes, and the links between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from proofs.simulator.machines.broker import LOG_DIR, SimulatedBroker
from proofs.simulator.machines.connection import ClientEnd, ServerEnd
from proofs.simulator.machines.disk import Disk, SimulatedStorage
from proofs.simulator.machines.network import Network
from proofs.simulator.machines.scheduler import ProcessLoop, Scheduler
from proofs.simulator.machines.store import SimulatedStore, StoreClient
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Produce

ACKS_ALL = -1


class Machine:
    """A machine keeps what outlives a process: the disk, the clock, the time of the last start."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.disk = Disk()
        self.boot = 1
        self.starts = 0
        self.is_up = True
        self.clock_offset_ms = 0
        self.process: Process | None = None


class Process:
    """A process with a place in the network: a broker's, or (machine None) a client's."""

    def __init__(self, cluster: Cluster, place: int, name: str, machine: Machine | None) -> None:
        self.cluster = cluster
        self.place = place
        self.name = name
        self.loop = ProcessLoop(cluster.scheduler, name)
        self.loop.machine = machine
        self.machine: Any = machine
        self.node_id: int | None = None if machine is None else machine.node_id
        self.principal = "User:ANONYMOUS"
        self.broker: Any = None
        self.store: StoreClient | None = None
        self.storage: Any = None
        self.ends: list[ServerEnd] = []
        self.is_stopping = False
        self.has_failed = ""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def open_store(self) -> StoreClient:
        """Opens the broker's session."""
        assert self.store is None
        self.store = self.cluster.store.connect(self.loop, self.place)
        if self.cluster.network.is_cut(self.place, 0) or self.cluster.network.is_cut(0, self.place):
            self.store.link_changed(is_up=False)
        return self.store

    def replicas(self) -> Any:
        """The broker's replica manager, None before it exists."""
        return None if self.broker is None else getattr(self.broker, "replicas", None)

    def close_connections(self) -> None:
        """Closes the broker's connections."""
        for end in self.ends:
            end.close()


class Cluster:
    """The machines, processes and links of one history."""

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        store: SimulatedStore,
        rng: Random,
        settings: Callable[[int, int], Mapping[str, str]],
    ) -> None:
        """``settings``: returns a broker's settings by its id and the count of its starts."""
        self.scheduler = scheduler
        self.network = network
        self.store = store
        self.rng = rng
        self._settings = settings
        self.machines: dict[int, Machine] = {}
        self.trace: list[str] | None = None
        self.watcher: Any = None

    def note(self, text: str) -> None:
        """Adds a line to the trace, if there is one."""
        if self.trace is not None:
            self.trace.append(f"{self.scheduler.now:9.4f}  {text}")

    # Brokers

    def add_machine(self, node_id: int) -> Machine:
        """Adds a machine without a process."""
        machine = self.machines[node_id] = Machine(node_id)
        return machine

    def start(self, node_id: int) -> Process:
        """Starts the broker of a machine."""
        machine = self.machines[node_id]
        machine.is_up = True
        machine.starts += 1
        process = machine.process = Process(self, node_id, f"broker {node_id}", machine)
        process.storage = SimulatedStorage(machine.disk, self.store.now_ms, self._interleave)
        process.loop.call_soon(self._run, process)
        self.note(f"broker {node_id} starts")
        return process

    def _interleave(self) -> None:
        if self.scheduler.threads is not None:
            self.scheduler.threads.interleave()

    def _run(self, process: Process) -> None:
        own = self._settings(process.machine.node_id, process.machine.starts)
        settings = {"node.id": str(process.node_id), "log.dirs": LOG_DIR, **own}
        process.broker = SimulatedBroker(process, settings)
        process.loop.create_task(self._serve(process))

    async def _serve(self, process: Process) -> None:
        try:
            await process.broker.start()
        except Exception as error:
            process.has_failed = f"{type(error).__name__}: {error}"
            self.note(f"broker {process.node_id} failed to start: {process.has_failed}")
            self.kill(process.machine.node_id)
            return
        self.note(f"broker {process.node_id} is ready")

    def stop(self, node_id: int) -> None:
        """Stops a broker in order."""
        process = self.machines[node_id].process
        if process is not None and process.broker is not None and process.broker.is_serving and not process.is_stopping:
            process.is_stopping = True
            self.note(f"broker {node_id} begins to stop")
            process.loop.call_soon(lambda: process.loop.create_task(self._stop(process)))

    async def _stop(self, process: Process) -> None:
        await process.broker.stop()
        self.note(f"broker {process.node_id} has stopped")
        self.kill(process.machine.node_id)

    def kill(self, node_id: int) -> None:
        """Kills a broker as kill -9 does."""
        machine = self.machines[node_id]
        process, machine.process = machine.process, None
        if process is None:
            return
        self._end(process)
        for end in process.ends:
            end.process_ended()
        if process.store is not None:
            self.store.process_ended(process.store)

    def _end(self, process: Process) -> None:
        process.loop.kill()
        # before the end of the process, because it may have to open a log that a stop has closed
        if self.watcher is not None:
            self.watcher.process_ended(process)
        process.storage.is_closed = True

    def cut_power(self, node_id: int, *, loses_disk: bool = False) -> None:
        """Stops the machine without notice to anybody."""
        machine = self.machines[node_id]
        process, machine.process = machine.process, None
        machine.is_up = False
        machine.boot += 1
        if process is not None:
            self._end(process)
            if process.store is not None:
                self.store.scheduler.after(self.store.timeout_s, self.store.expire, process.store.session.id)
        if loses_disk:
            machine.disk.lose()
        else:
            machine.disk.cut_power(self.rng)

    # Finding

    def serving(self, place: int) -> Process | None:
        """Returns the process that accepts connections at that place."""
        machine = self.machines.get(place)
        process = machine.process if machine is not None else None
        return process if process is not None and process.broker is not None and process.broker.is_serving else None

    def is_machine_up(self, place: int) -> bool:
        """Returns whether anything answers at that place."""
        machine = self.machines.get(place)
        return machine is None or machine.is_up

    def brokers(self) -> Iterator[SimulatedBroker]:
        """Yields the brokers that are ready."""
        for node_id in self.machines:
            process = self.serving(node_id)
            if process is not None:
                yield process.broker

    # What connections tell

    def connected(self, end: ClientEnd) -> None:
        """Notes that a broker has accepted a connection."""
        ends = end.other.process.ends
        if len(ends) > 8:
            ends[:] = [each for each in ends if not each.is_closed]
        ends.append(end.other)

    def sent(self, process: Process, request: Any, response: Any) -> None:
        """Notes that a broker answers."""
        if isinstance(request, Produce.Request) and request.acks == ACKS_ALL and self.watcher is not None:
            for topic in response.responses:
                for answer in topic.partition_responses:
                    if not answer.error_code and answer.base_offset >= 0:
                        self.watcher.answered(process, TopicPartition(topic.name, answer.index), answer.base_offset)

    # Links

    def cut(self, source: int, target: int) -> None:
        """Cuts the link from one place to another."""
        self.network.cut(source, target)
        if 0 in (source, target):
            self.store.link_changed(source or target, is_up=False)

    def heal(self) -> None:
        """Heals all links."""
        for source, target in self.network.cuts:
            self.network.heal(source, target)
        for node_id in self.machines:
            self.store.link_changed(node_id, is_up=True)

    def heal_link(self, source: int, target: int) -> None:
        """Heals one direction of a link."""
        self.network.heal(source, target)
        if 0 in (source, target):
            place = source or target
            if not self.network.is_cut(place, 0) and not self.network.is_cut(0, place):
                self.store.link_changed(place, is_up=True)
