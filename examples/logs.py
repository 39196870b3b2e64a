"""Log collection from real log files, exactly once. A log of this machine is written again, in portions that end within
lines, and rotated twice. Meanwhile ``log_collector.py`` tails it and is killed (SIGKILL) again and again. In the end
the topic holds the log: each line once, in order.

    python examples/logs.py [/var/log/dpkg.log]
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import log_collector
from pybroker.embedded import environment
from reading import read
from stage import broker, parser, picture, play, tell

TOPIC = "logs"
PORTIONS = 9
KILLED_AT = (3, 6)
ROTATED_AT = (4, 7)
PATIENCE_S = 60.0


class LiveLog:
    """A log that grows and is rotated."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in list(log_collector.rotated(file)):
            old.unlink()

    def append(self, data: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(data)

    def rotate(self) -> None:
        """As logrotate does: the oldest is renamed first."""
        for path in reversed(list(log_collector.rotated(self.file))):
            number = int(path.suffix[1:]) if path != self.file else 0
            path.rename(self.file.with_name(f"{self.file.name}.{number + 1}"))


@contextmanager
def collector(bootstrap: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``log_collector.py`` as a process of its own, killed at the end of the block if it still runs."""
    command = [sys.executable, log_collector.__file__, bootstrap, TOPIC, str(log), "--portion", "4096"]
    process = subprocess.Popen(command, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def seen(bootstrap: str, wanted: int, isolation_level: str = "read_committed") -> list[bytes]:
    """The lines in the topic; waits until there are ``wanted`` of them. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lines = [record.value for record in read(bootstrap, TOPIC, isolation_level)]
        if len(lines) >= wanted:
            return lines
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(lines):,} of {wanted:,} lines came")
        time.sleep(0.05)


def collect(bootstrap: str, lines: list[bytes], log: LiveLog) -> list[bytes]:
    """Writes the log while it is collected; what the topic holds in the end."""
    data = b"".join(line + b"\n" for line in lines)
    cuts = [len(data) * number // PORTIONS for number in range(PORTIONS + 1)]  # most of them within a line,
    for number in ROTATED_AT:
        cuts[number] = data.index(b"\n", cuts[number]) + 1  # but a log is rotated between lines
    portions = [data[start:end] for start, end in pairwise(cuts)]
    for start, end in pairwise([0, *KILLED_AT, PORTIONS]):
        with collector(bootstrap, log.file) as process:
            for number in range(start, end):
                if number in ROTATED_AT:
                    log.rotate()
                log.append(portions[number])
            if end == PORTIONS:
                seen(bootstrap, len(lines))
                process.terminate()
                process.wait(PATIENCE_S)
            else:  # killed as soon as the first of the new lines are seen, perhaps not committed yet
                seen(bootstrap, data[: cuts[start] + 1].count(b"\n") + 1, "read_uncommitted")
    return seen(bootstrap, len(lines))


def read_lines(log: Path) -> list[bytes]:
    """The complete lines of a log. Raises ValueError where there are none, OSError."""
    *lines, _ = log.read_bytes().split(b"\n")
    if not lines:
        raise ValueError(f"{log} has no lines: name another log")
    return lines


def count_actions(bootstrap: str, word: int) -> Counter[str]:
    """How often each word stands at this place of a line."""
    lines = (record.value.decode(errors="replace").split() for record in read(bootstrap, TOPIC))
    return Counter(words[word - 1] for words in lines if len(words) >= word)


def main() -> bool:
    """Whether the topic holds the log."""
    arguments = parser(__doc__ or "", "logs")
    arguments.add_argument("log", nargs="?", type=Path, default=Path("/var/log/dpkg.log"), help="[%(default)s]")
    arguments.add_argument("--word", type=int, default=3, help="the word of a line that is its action [%(default)s]")
    options = arguments.parse_args()
    lines = read_lines(options.log)
    with broker(options.bootstrap, log_collector.topics(TOPIC)) as bootstrap:
        live = LiveLog(options.output / "live" / options.log.name)
        collected = collect(bootstrap, lines, live)
        attempts = len(seen(bootstrap, len(lines), "read_uncommitted"))
        counts = count_actions(bootstrap, options.word)
    tell("log", f"{len(lines):,} lines of {options.log}, in {len(ROTATED_AT) + 1} files of {live.file.parent}")
    tell("collector", f"killed {len(KILLED_AT)} times; {attempts:,} lines written, {len(collected):,} committed")
    tell("counts", ", ".join(f"{action} {count:,}" for action, count in counts.most_common(5)))
    with picture(options.output / "actions.png", f"{options.log}: lines per action") as figure:
        axes = figure.subplots()
        actions, numbers = zip(*reversed(counts.most_common(12)), strict=True)
        axes.bar_label(axes.barh(actions, numbers), fmt="{:,.0f}", padding=4)
    return collected == lines


if __name__ == "__main__":
    play(main)
