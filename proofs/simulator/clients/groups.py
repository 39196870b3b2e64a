"""The consumer groups of a history, one classic and one of the new protocol: their members and their auditors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from proofs.simulator.clients.client import Client
from proofs.simulator.clients.group_clients import Auditor, ClassicMember, Intruder, ModernMember
from proofs.simulator.faults.administrator import DOOMED
from proofs.simulator.oracle.group_oracle import GroupOracle
from proofs.simulator.oracle.history import SAFE
from proofs.simulator.oracle.oracle import Oracle
from proofs.simulator.settings import Settings

CLASSIC, MODERN = "old", "new"
INTRUSIONS = 30
MakeClient = Callable[[Random], Client]


class Groups:
    """All consumer groups of a history."""

    def __init__(self, settings: Settings, oracle: Oracle, is_calm: Callable[[], bool]) -> None:
        self.oracle = GroupOracle(oracle)
        self._settings = settings
        self._is_calm = is_calm

    def start(self, client: MakeClient, rng: Random) -> list[asyncio.Task[None]]:
        """Starts all members that join."""
        topics = [SAFE, DOOMED] if self._settings.room == "topics" else [SAFE]
        members = [(ClassicMember, CLASSIC)] * self._settings.classic_members
        members += [(ModernMember, MODERN)] * self._settings.modern_members  # type: ignore[list-item]
        work = []
        for kind, group in members:
            member = kind(client(rng), group, self.oracle, self._is_calm, topics)
            work.append(member.client.loop.start(member.run(self._settings.lives)))
        if self._settings.classic_members:
            intruder = Intruder(client(rng), CLASSIC, self.oracle, self._is_calm)
            work.append(intruder.client.loop.start(intruder.run(INTRUSIONS)))
        return work

    def audit(self, client: MakeClient, rng: Random) -> list[asyncio.Task[None]]:
        """Reads the committed offsets once all members have ended."""
        auditors = [Auditor(client(rng), group, self.oracle, self._is_calm) for group in (CLASSIC, MODERN)]
        return [auditor.client.loop.start(auditor.run()) for auditor in auditors]
