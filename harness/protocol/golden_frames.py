"""The golden files: the requests of real clients to a real Kafka, and its responses.

    # Fetch 11                              API and version, for the reader
    > 0000005a0001000b00000005…             the request, a whole frame in hexadecimal
      6d65…                                 a long frame continues in the next line
    < 000000…                             the answer; missing for a Produce with acks=0

Each client has a file, with its requests in sending order; ``python -m conformance.wire.record`` renews them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.txt"))
_WIDTH = 98


@dataclass(frozen=True)
class Exchange:
    """A request and its response, as frames that begin with their length."""

    title: str
    request: bytes
    response: bytes

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.request[4:6], "big")

    @property
    def version(self) -> int:
        return int.from_bytes(self.request[6:8], "big")

    @property
    def correlation_id(self) -> bytes:
        return self.request[8:12]

    def __str__(self) -> str:
        return self.title


def read(path: Path) -> list[Exchange]:
    """Reads the exchanges of a golden file."""
    found: list[Exchange] = []
    for block in path.read_text().split("# ")[1:]:
        title, _, frames = block.partition("\n")
        request, _, response = frames.replace(">", "").partition("<")
        found.append(Exchange(title, bytes.fromhex(request), bytes.fromhex(response)))
    return found


def write(path: Path, exchanges: Iterable[Exchange]) -> None:
    """Writes a golden file."""
    lines = []
    for exchange in exchanges:
        lines.append(f"# {exchange.title}")
        for mark, frame in ((">", exchange.request), ("<", exchange.response)):
            rows = textwrap.wrap(frame.hex(), _WIDTH)
            lines += [f"{mark} {row}" if i == 0 else f"  {row}" for i, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
