"""Broken brokers: what they do wrong (``planted``), and how they are made (``sitecustomize``)."""

import os
from pathlib import Path

#: What a process must have in its ``PYTHONPATH``, beside ``PYBROKER_MUTANT``, to be one.
FOLDER = Path(__file__).parent


def environment(mutant: str) -> dict[str, str]:
    """The variables that make a broker process that mutant."""
    paths = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
    return {"PYBROKER_MUTANT": mutant, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
