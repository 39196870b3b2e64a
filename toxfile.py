"""Tells tox where the Pythons are: for ``py311`` … ``py314``, ``newer``, and what builds for them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tox.config.loader.memory import MemoryLoader
from tox.config.sets import EnvConfigSet
from tox.plugin import impl
from tox.session.state import State

sys.path.insert(0, str(Path(__file__).parent))
from conformance import pythons


def base_python(env: str) -> Path | None:
    """The interpreter of an environment of that name; None where tox finds it by itself, or misses it."""
    if env == "newer":
        return pythons.newer(sys.version_info[:2]) or pythons.package_home() / "bin" / "python3.14"
    found = re.fullmatch(r"(?:py|\.pkg-cpython)3(\d+)", env)
    return pythons.interpreter((3, int(found[1]))) if found else None


@impl
def tox_add_env_config(env_conf: EnvConfigSet, state: State) -> None:
    """Called by tox for every environment."""
    if path := base_python(env_conf.name):
        env_conf.loaders.insert(0, MemoryLoader(base_python=[str(path)]))
