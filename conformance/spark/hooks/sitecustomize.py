"""Changes the sink in this process if the environment asks for it: kills at a known stage, and planted defects."""

from __future__ import annotations

import importlib.util
import os
import sys

assert importlib.util
if "PYBROKER_SPARK_KILLS" in os.environ:
    from conformance.spark.hooks import planted, stages
    from conformance.spark.hooks.breaker import Breaker

    changes = [*stages.PATCHES.items(), *planted.patches(os.environ.get("PYBROKER_SPARK_MUTANT"))]
    for place, change in changes:
        sys.meta_path.insert(0, Breaker(place, change))
