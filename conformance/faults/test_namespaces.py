"""The namespaces' network loses the requested packets in one direction, and nothing after it has healed."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.faults import network
from harness.faults.network import CLIENTS, Network

pytestmark = [pytest.mark.ours, pytest.mark.campaign]
PORT = 7_000
#: This program answers every datagram, and says when it is ready.
ECHO = """
import socket, sys
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, sender = here.recvfrom(100)
    print(data.decode(), flush=True)
    here.sendto(data, sender)
"""


class Echo:
    """A process on machine 1 that notes in ``heard`` what it has received."""

    def __init__(self, net: Network) -> None:
        self.address = net.address(1), PORT
        command = [*net.enter(1), sys.executable, "-c", ECHO, *map(str, self.address)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.heard()

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, text: str, patience_s: float) -> bool:
        """Returns whether an answer comes back."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.settimeout(patience_s)
            here.sendto(text.encode(), self.address)
            try:
                return here.recv(100) == text.encode()
            except TimeoutError:
                return False


@pytest.fixture
def net() -> Iterator[Network]:
    assert network.is_possible(), "needs root, ip of iproute2, and a kernel with network namespaces"
    with Network([1]) as found:
        yield found


@pytest.fixture
def echo(net: Network) -> Iterator[Echo]:
    found = Echo(net)
    yield found
    found.process.kill()
    found.process.wait()
    assert found.process.stdout is not None
    found.process.stdout.close()


def test_packets_from_a_machine_can_be_dropped_while_it_receives(net: Network, echo: Echo) -> None:
    assert echo.ask("before", 60)
    net.cut(1, CLIENTS)
    assert not echo.ask("cut", 0.5)
    assert [echo.heard(), echo.heard()] == ["before", "cut"]
    net.heal()
    assert echo.ask("healed", 60)


def test_packets_to_a_machine_can_be_dropped(net: Network, echo: Echo) -> None:
    net.cut(CLIENTS, 1)
    assert not echo.ask("cut", 0.5)
    net.heal()
    assert echo.ask("healed", 60)
    assert echo.heard() == "healed"
