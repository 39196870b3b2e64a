"""Tells tox where the Pythons are: for ``py311`` … ``py314``, ``newer``, and what builds for them."""

from __future__ import annotations

import sys
from pathlib import Path

from tox.config.loader.memory import MemoryLoader
from tox.config.sets import EnvConfigSet
from tox.plugin import impl
from tox.report import HandledError
from tox.session.state import State

sys.path.insert(0, str(Path(__file__).parent))
from harness import peers, pythons


def is_asked_for(env: str, state: State) -> bool:
    """``-e`` or ``TOXENV`` names the environment: tox configures all others too, whatever it runs."""
    chosen = getattr(state.conf.options, "env", None) or ()
    return env in chosen


@impl
def tox_add_env_config(env_conf: EnvConfigSet, state: State) -> None:
    """Called by tox for every environment."""
    try:
        path = pythons.of_environment(env_conf.name, is_asked_for(env_conf.name, state))
    except peers.PeerError as error:
        raise HandledError(str(error)) from error
    if path:
        env_conf.loaders.insert(0, MemoryLoader(base_python=[str(path)]))
