"""A network of our own on one machine: a namespace per machine, a bridge between them, and losses in one direction.

The suite runs in the bridge's namespace, with two addresses. Its connections come from ``CLIENTS``, and ZooKeeper
listens on ``SERVICES``. So a test can cut a machine from one and not from the other. The network drops packets
silently, as a real one does: the sender's neighbour entry names a hardware address that does not exist. It needs root
and ``ip``; ``is_possible`` says whether this machine has them.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from types import TracebackType
from typing import Self

CLIENTS, SERVICES = "clients", "services"
NOWHERE = "02:00:00:00:00:00"
_number = itertools.count(1)


class NetworkError(RuntimeError):
    """``ip`` has failed. The text contains its output."""


def _ip(*words: object) -> str:
    done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def is_possible() -> bool:
    """Returns whether this process can make namespaces and a bridge."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        with Network([]):
            return True
    except NetworkError:
        return False


class Network:
    """Machines by name. Each has an address and a namespace; ``enter`` starts processes there."""

    def __init__(self, machines: list[int]) -> None:
        #: The process id tells the networks of several runs on one machine apart.
        self.tag = f"{os.getpid() % 100_000}x{next(_number)}"
        third, second = os.getpid() % 250, (os.getpid() // 250) % 250
        self.prefix = f"10.{second}.{third}"
        self.bridge = f"pb{self.tag}"
        self.machines = machines
        self.cuts: set[tuple[object, object]] = set()

    def address(self, end: object) -> str:
        """Returns the address of a machine, or of ``CLIENTS`` or ``SERVICES``."""
        host = {CLIENTS: 1, SERVICES: 2}.get(end) if isinstance(end, str) else 10 + int(str(end))
        return f"{self.prefix}.{host}"

    def enter(self, machine: int) -> list[str]:
        """Returns the prefix of a command that runs on that machine, in the same process."""
        return ["ip", "netns", "exec", self._namespace(machine)]

    def cut(self, sender: object, receiver: object) -> None:
        """Drops all packets from ``sender`` to ``receiver`` from now on."""
        self.cuts.add((sender, receiver))
        self._neighbour(sender, receiver, NOWHERE)

    def isolate(self, machine: int, ends: list[object]) -> None:
        """Cuts a machine off from ``ends``, in both directions."""
        for end in ends:
            self.cut(machine, end)
            self.cut(end, machine)

    def heal(self) -> None:
        """Ends all cuts of the network."""
        for sender, receiver in list(self.cuts):
            self._neighbour(sender, receiver, self._hardware(receiver))
        self.cuts.clear()

    def _neighbour(self, sender: object, receiver: object, hardware: str) -> None:
        place = ("dev", "eth0") if isinstance(sender, int) else ("dev", self.bridge)
        space = ("-n", self._namespace(sender)) if isinstance(sender, int) else ()
        _ip(*space, "neigh", "replace", self.address(receiver), "lladdr", hardware, *place, "nud", "permanent")

    def _namespace(self, machine: int) -> str:
        return f"{self.bridge}-{machine}"

    def _hardware(self, end: object) -> str:
        """Returns the hardware address of a machine. ``CLIENTS`` and ``SERVICES`` both have the bridge's."""
        return f"02:00:00:00:01:{10 + end:02x}" if isinstance(end, int) else "02:00:00:00:01:01"

    def __enter__(self) -> Self:
        try:
            self._make()
        except NetworkError:
            self.__exit__(None, None, None)
            raise
        return self

    def _make(self) -> None:
        _ip("link", "add", self.bridge, "address", self._hardware(CLIENTS), "type", "bridge")
        for end in (CLIENTS, SERVICES):
            _ip("addr", "add", f"{self.address(end)}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for machine in self.machines:
            space, port = self._namespace(machine), f"{self.bridge}p{machine}"
            _ip("netns", "add", space)
            _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", port, "master", self.bridge, "up")
            _ip("-n", space, "link", "set", "eth0", "address", self._hardware(machine), "up")
            _ip("-n", space, "addr", "add", f"{self.address(machine)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "lo", "up")

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        spaces = [("netns", "del", self._namespace(machine)) for machine in self.machines]
        for words in (*spaces, ("link", "del", self.bridge)):
            subprocess.run(["ip", *words], stderr=subprocess.DEVNULL, check=False)
