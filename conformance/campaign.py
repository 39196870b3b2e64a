"""Runs the long suites by name: ``python -m conformance.campaign NAME [options]``, or ``tox -e campaign -- NAME``.

A campaign is one command or some: tests that are marked ``campaign``, or a program of its own. Each of them gets the
options after the name: ``-k kills`` is for pytest, ``--seeds 0-1000`` for the simulator. Ctrl-C ends it in order.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import shlex
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from conformance.tiers import CAMPAIGN

ROOT: Final = Path(__file__).parents[1]
GRACE_S: Final = 60.0
"""The time that an interrupted command has to stop the processes that it started."""
MARK: Final = "CONFORMANCE_CAMPAIGN"
"""Set in the environment of a campaign's processes, so that they can be found after ``setsid``."""
UNKNOWN: Final = 2
INTERRUPTED: Final = 128 + signal.SIGINT


@dataclass(frozen=True)
class Suite:
    """The campaign's tests in files and folders."""

    paths: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """Returns the command line. Its faulthandler is for runs that hang, because a campaign's tests have limits of
        their own.
        """
        ignored = [f"--ignore={path}" for path in self.ignored]
        own = ["-m", CAMPAIGN, "-o", "faulthandler_timeout=0", *self.options, *self.paths, *ignored]
        return [sys.executable, "-m", "pytest", *own]


@dataclass(frozen=True)
class Program:
    """A module that runs as a program."""

    module: str
    arguments: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """Returns the command line."""
        return [sys.executable, "-m", self.module, *self.arguments]


@dataclass(frozen=True)
class Campaign:
    """What a campaign does, how many hours it takes on two cores, and its commands."""

    what: str
    hours: float
    commands: tuple[Suite | Program, ...]

    def takes(self) -> str:
        """Returns the hours in words."""
        return f"{self.hours:g} h" if self.hours >= 1 else f"{self.hours * 60:.0f} min"


LONG_CLUSTER: Final = ("--minutes", "60", "--faults", "500", "--records", "15000000")
SECURED_CLUSTER: Final = ("--minutes", "30", "--faults", "200", "--records", "5000000")
CLUSTERS_IN_FAULTS: Final = "conformance/faults/test_cluster.py"

CAMPAIGNS: Final[Mapping[str, Campaign]] = {
    "kills": Campaign(
        "200 kills under load, every crash state, chaos of brokers, disks and networks, with mutants that it finds",
        3,
        (
            Suite(
                ("conformance/faults", "conformance/api", "pybroker", "proofs"),
                (
                    *("conformance/faults/test_exactly_once.py", "conformance/faults/test_sdk.py", CLUSTERS_IN_FAULTS),
                    "pybroker/security",
                ),
            ),
        ),
    ),
    "exactly-once": Campaign(
        "100,000 transactions of three clients under kills of broker and clients, and zombies",
        1 / 3,
        (Suite(("conformance/faults/test_exactly_once.py",)),),
    ),
    "cluster": Campaign(
        "three brokers under 500 faults while all clients write (--place machines: ZooKeeper and broken networks)",
        1,
        (Program("conformance.faults.campaigns.cluster", LONG_CLUSTER),),
    ),
    "secured": Campaign(
        "the same with SASL_SSL everywhere, rights and certificates that change, and guests that must not be let in",
        1 / 2,
        (Program("conformance.faults.campaigns.cluster", ("--secured", *SECURED_CLUSTER)),),
    ),
    "scenarios": Campaign(
        "the scenarios of several brokers in their long form, on both stores: 200 kills, 5,000 clients",
        1,
        (Suite(("conformance/scenarios/cluster", "conformance/bench/tests/test_cluster.py", CLUSTERS_IN_FAULTS)),),
    ),
    "sdk": Campaign(
        "our SDK writes and reads ten million records under four hundred faults",
        1 / 3,
        (Suite(("conformance/faults/test_sdk.py",), options=("-s",)),),
    ),
    "interruptions": Campaign(
        "our SDK under 100,000 signals, 10,000 cancelled calls, and 1,000 closes while others call",
        1 / 3,
        (Program("conformance.faults.campaigns.interruptions"),),
    ),
    "spark": Campaign(
        "the exactly-once sink of Spark: 200 kills of workers, drivers and brokers, and defects; Spark's own connector",
        6,
        (Suite(("conformance/spark",), options=("-s",)),),
    ),
    "wire": Campaign(
        "thousands of messages of every API, assignments, and names of users, against Kafka's classes; long fuzzing",
        2 / 3,
        (Suite(("pyclient", "pybroker/security")),),
    ),
    "simulation": Campaign(
        "the broken protocols that must be found, then a million simulated histories (--seeds A-B: a part)",
        10,
        (Program("proofs.simulator", ("--seeds", "0-1000000", "--mutants", "3000")),),
    ),
    "differential": Campaign(
        "thousands of sequences of raw requests to our broker and to a real Kafka; compares the answers",
        1 / 6,
        (Suite(("conformance/differential",), options=("-s",)),),
    ),
    "applications": Campaign(
        "Kafka Streams, Connect, pipelines and the copier of Kafka's system tests over many kills",
        1 / 2,
        (
            Suite(
                (
                    "conformance/applications",
                    "conformance/scenarios/pipelines/test_plugin_connect.py",
                    "conformance/scenarios/pipelines/test_plugin_streams.py",
                    "conformance/scenarios/pipelines/test_pipelines.py",
                ),
            ),
        ),
    ),
    "go": Campaign(
        "Go's clients: logins, ACLs, passwords, quotas (Go 1.21 or newer has to be installed)",
        1 / 12,
        (Suite(("conformance/security",)),),
    ),
    "hostility": Campaign(
        "what hostile requests cost a client beside them, of one broker and of three",
        1 / 4,
        (Program("conformance.bench.hostility"), Program("conformance.bench.hostility", ("--brokers", "3"))),
    ),
}
"""The campaigns by name. ``conformance/tests/test_environments.py`` checks that no marked test is left out."""


def listed() -> str:
    """Returns a line for each campaign."""
    width = max(map(len, CAMPAIGNS))
    lines = (f"  {name:{width}}  {each.takes():>6}  {each.what}" for name, each in CAMPAIGNS.items())
    return "\n".join(["campaigns:", *lines])


def unknown(name: str) -> str:
    """Returns the error message for an unknown name."""
    near = difflib.get_close_matches(name, CAMPAIGNS, 1)
    return f"there is no campaign {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def run(commands: Sequence[Sequence[str]]) -> int:
    """Runs all commands, also after one that failed. Returns the first exit code that is not 0."""
    codes = []
    with interruptible():
        for words in commands:
            print(f"campaign: {shlex.join(words)}", file=sys.stderr, flush=True)
            codes.append(code_of(words))
    return next(filter(None, codes), 0)


def code_of(words: Sequence[str]) -> int:
    """Runs one command in a session of its own, so that an interruption reaches it once. Kills what it leaves.

    Raises KeyboardInterrupt after an interruption, when the command has ended.
    """
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    child = subprocess.Popen(words, cwd=ROOT, env={**os.environ, MARK: mark}, start_new_session=True)
    try:
        code = child.wait()
    except KeyboardInterrupt:
        print("campaign: interrupted; the command stops what it started", file=sys.stderr, flush=True)
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        raise
    finally:
        kill_all(mark)
        child.wait()
    return code if code >= 0 else 128 - code


def kill_all(mark: str) -> None:
    """Kills every process with that mark, until there is none."""
    while pids := marked(mark):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def marked(mark: str) -> list[int]:
    """Returns the processes with that mark. A zombie has no environment and is not among them."""
    variable = f"{MARK}={mark}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if variable in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Makes SIGINT and SIGTERM raise KeyboardInterrupt only once, because tox and ``timeout`` repeat them."""
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.getsignal(kind) for kind in kinds}

    def interrupt(_number: int, _frame: types.FrameType | None) -> NoReturn:
        for kind in kinds:
            signal.signal(kind, signal.SIG_IGN)
        raise KeyboardInterrupt

    try:
        for kind in kinds:
            signal.signal(kind, interrupt)
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign that the arguments name. Returns its exit code."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("campaign", description=listed(), formatter_class=formatter)
    parser.add_argument("name", nargs="?", metavar="NAME", help="which campaign")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="go to each of its commands")
    chosen = parser.parse_args(arguments)
    if chosen.name not in CAMPAIGNS:
        told = [unknown(chosen.name)] if chosen.name else [parser.format_usage()]
        print(*told, listed(), sep="\n", file=sys.stderr)
        return UNKNOWN
    try:
        return run([[*each.words(), *chosen.options] for each in CAMPAIGNS[chosen.name].commands])
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
