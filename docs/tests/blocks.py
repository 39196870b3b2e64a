"""The blocks of a page, and what runs them as a reader would.

```` ```python ````   a program of its own            ```` ```sh ````   typed into a shell, in the page's folder
```` ```text ````     behind one of them: exactly what it prints; ``…`` stands for anything

A comment ``<!-- not run: why -->`` above a block spares it. ``localhost:9092`` is the broker of most pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pybroker.embedded import environment

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<mark>```+)(?P<language>\w*)\n(?P<text>.*?)^(?P=mark)$", re.MULTILINE | re.DOTALL)
SPARED = re.compile(r"<!-- not run: .+ -->\s*$")
BLOCK_S = 90
RUN = {"python": [sys.executable, "-"], "sh": ["sh", "-eu"]}


class Block(NamedTuple):
    """line: of its first line. expected: what it prints, None where the page does not say."""

    line: int
    language: str
    text: str
    expected: str | None


class Shell(NamedTuple):
    """Where blocks run: a folder, with ``pybroker`` and ``python`` in the path. ``address``: of the broker, as the page
    has it; ``bootstrap`` stands for it.
    """

    folder: Path
    bootstrap: str
    address: str = "localhost:9092"

    def run(self, block: Block) -> str:
        """What it printed. Raises AssertionError with all of its output where it fails."""
        text = block.text.replace(self.address, self.bootstrap)
        ended = subprocess.run(
            RUN[block.language],
            input=text,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            timeout=BLOCK_S,
        )
        assert ended.returncode == 0, f"exit code {ended.returncode}\n{text}\n{ended.stdout}{ended.stderr}"
        return ended.stdout.replace(self.bootstrap, self.address)

    def _environment(self) -> dict[str, str]:
        programs = self.folder / ".bin"
        programs.mkdir(exist_ok=True)
        program = programs / "pybroker"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pybroker "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**environment(), "PATH": path, "PYBROKER_BOOTSTRAP": self.bootstrap}


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are run, in order."""
    found = list(FENCE.finditer(text))
    for at, fence in enumerate(found):
        if fence["language"] not in RUN or SPARED.search(text[: fence.start()]):
            continue
        after = found[at + 1] if at + 1 < len(found) else None
        follows = after is not None and after["language"] == "text" and not text[fence.end() : after.start()].strip()
        line = text.count("\n", 0, fence.start()) + 2
        yield Block(line, fence["language"], fence["text"], after["text"] if after and follows else None)


def is_as_expected(printed: str, expected: str) -> bool:
    """Whether a block printed what the page says."""
    pattern = "".join(".*?" if part == "…" else re.escape(part) for part in re.split("(…)", expected))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None
