"""What the examples have in common: ``--bootstrap``, ``--output``, a broker if none is given, figures, a picture."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pybroker
from pybroker.embedded import BrokerFailed
from pyclient import Admin, KafkaError, NewTopic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME_WIDTH = 12


def parser(doc: str, name: str) -> argparse.ArgumentParser:
    """With the options that every example has; ``doc`` is what its help says."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bootstrap", metavar="HOST:PORT", help="brokers to use; without, one is started and ended")
    made.add_argument("--output", metavar="FOLDER", type=Path, default=Path("out", name), help="[%(default)s]")
    return made


def play(example: Callable[[], bool]) -> None:
    """Runs an example, and ends this program: code 0 where it found what it should, 1 where it failed."""
    logging.getLogger("pyclient").addHandler(logging.NullHandler())
    began = time.perf_counter()
    try:
        is_right = example()
    except (KafkaError, BrokerFailed, OSError, RuntimeError, ValueError) as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")
    tell("took", f"{time.perf_counter() - began:.1f} s")
    tell("verdict", "nothing lost, nothing doubled" if is_right else "NOT WHAT IT SHOULD BE")
    sys.exit(not is_right)


def tell(name: str, text: str) -> None:
    """A line of the report."""
    print(f"  {name:<{NAME_WIDTH}}  {text}", flush=True)


@contextmanager
def broker(bootstrap: str | None, topics: list[NewTopic]) -> Iterator[str]:
    """The address of brokers that have these topics: the given one, or a new one's, which ends with the block.

    Raises TopicAlreadyExists if one is left from an earlier run (``pybroker topic delete``).
    """
    with ExitStack() as stack:
        if bootstrap is None:
            own = pybroker.run(group_initial_rebalance_delay_ms=0, log_cleaner_backoff_ms=500)
            bootstrap = stack.enter_context(own).bootstrap_servers
        with Admin(bootstrap) as admin:
            admin.create_topics(topics)
        yield bootstrap


@contextmanager
def picture(file: Path, title: str) -> Iterator[Figure]:
    """A drawing, as a PNG."""
    from matplotlib import rc_context  # slow to import
    from matplotlib.figure import Figure

    with rc_context({"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True}):
        figure = Figure(figsize=(9, 4.5), layout="constrained")
        figure.suptitle(title)
        yield figure
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=120)
    tell("picture", str(file))
