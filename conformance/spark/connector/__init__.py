"""Runs the real ``spark-sql-kafka`` 4.0.0, with PySpark 4.0.0 in its own environment among the peers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from conformance.spark.session import CONFIG
from harness import peers, witnesses

VERSION = "4.0.0"
HERE = Path(__file__).parent
STALLED_S = 900.0


def jars() -> list[Path]:
    """Fetches the connector and its dependencies once."""
    folder = peers.jars_of(HERE / "pom.xml", f"spark-sql-kafka-{VERSION}")
    return sorted(folder.glob("*.jar"))


def python() -> Path:
    """Installs an interpreter with this version of PySpark once (some 450 MB), and returns it.

    Raises:
        PeerError: it could not be installed.
    """
    return peers.environment(f"pyspark-{VERSION}", [f"pyspark=={VERSION}"])


def run(program: str, *arguments: str) -> dict[str, Any]:
    """Runs a program beside this file and returns the JSON in its last line.

    Raises:
        PeerError: it failed.
    """
    witnesses.used(f"spark-sql-kafka {VERSION}")
    interpreter = str(python())
    options = {**CONFIG, "spark.jars": ",".join(map(str, jars()))}
    own = {"PYSPARK_PYTHON": interpreter, "PYSPARK_DRIVER_PYTHON": interpreter, "PYTHONPATH": ""}
    # SPARK_HOME belongs to another version.
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [interpreter, str(HERE / program), json.dumps(options), *arguments],
        env={**inherited, **own},
        capture_output=True,
        text=True,
        timeout=STALLED_S,
        check=False,
    )
    if done.returncode != 0:
        raise peers.PeerError(f"{program} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    print(done.stdout, file=sys.stderr)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
