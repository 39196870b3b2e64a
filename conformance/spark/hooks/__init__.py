"""Kills (``stages``) and defects (``planted``) that tests put into the Python processes of a Spark from outside."""

import os
from pathlib import Path

#: A process needs this in its ``PYTHONPATH``, beside the variables, for its ``sitecustomize``.
FOLDER = Path(__file__).parent


def environment(control: Path, mutant: str | None) -> dict[str, str]:
    """Returns the variables of a driver whose processes look for kills in the folder ``control``."""
    paths = [str(FOLDER), str(FOLDER.parents[2]), os.environ.get("PYTHONPATH", "")]
    named = {"PYBROKER_SPARK_MUTANT": mutant} if mutant else {}
    return {"PYBROKER_SPARK_KILLS": str(control), "PYTHONPATH": os.pathsep.join(filter(None, paths)), **named}
