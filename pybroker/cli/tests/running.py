"""Runs the command in this process, with click's runner around the streams."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

from click.testing import CliRunner

from pybroker import cli


class Ended(NamedTuple):
    """The outcome of a command: exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """Returns the JSON documents that ``-o jsonl`` printed."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell(NamedTuple):
    """Runs commands against a cluster."""

    bootstrap: str = ""

    def __call__(self, *words: object, stdin: str | bytes = b"") -> Ended:
        env = {"PYBROKER_BOOTSTRAP": self.bootstrap}
        with CliRunner().isolation(input=stdin, env=env) as streams:
            code = cli.main([str(word) for word in words])
            sys.stdout.flush()
            sys.stderr.flush()
            out, err = streams[0].getvalue(), streams[1].getvalue()
        return Ended(code, out.decode(), err.decode())

    def done(self, *words: object, stdin: str | bytes = b"") -> Ended:
        """Runs a command that must succeed."""
        ended = self(*words, stdin=stdin)
        assert ended.code == 0, ended
        return ended

    def refused(self, *words: object, code: int = 1, stdin: str | bytes = b"") -> str:
        """Runs a command that must fail. Returns its one line on stderr."""
        ended = self(*words, stdin=stdin)
        assert ended.code == code, ended
        assert ended.err.count("\n") == 1, ended.err
        assert ended.err.startswith("pybroker: ")
        return ended.err
