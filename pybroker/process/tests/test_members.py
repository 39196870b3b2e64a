"""A supervisor keeps one broker of several running; the processes are fakes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pybroker import data_folder
from pybroker.process import fleet
from pybroker.process.broker_process import BrokerProcess, Hello
from pybroker.process.fleet import Member
from pybroker.process.start_options import StartOptions
from pybroker.tests.waiting import PATIENCE_S, until_async


class Process(BrokerProcess):
    """A fake process that takes requests at once, and ends when it is stopped or killed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def hello(self) -> Hello | None:
        await asyncio.sleep(0)
        return None if self._end.done() else Hello(self.pid, [], "")

    async def ended(self) -> int:
        return await self._end

    def stop(self) -> None:
        self.end(0)

    def kill(self) -> None:
        self.end(-9)

    def end(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)


class Processes:
    """The processes of a member. ``gate`` delays the next one."""

    def __init__(self) -> None:
        self.all: list[Process] = []
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = 0
        """The number of next processes that end before they serve."""

    async def start(self, *_: object) -> Process:
        self.asked += 1
        await self.gate.wait()
        self.all.append(Process(len(self.all) + 1))
        if self.failing:
            self.failing -= 1
            self.all[-1].end(1)
        return self.all[-1]


def kept(
    monkeypatch: pytest.MonkeyPatch, folder: Path, scenario: Callable[[Member, Processes], Awaitable[None]]
) -> None:
    """Runs the scenario on a member whose first process takes requests."""

    async def run() -> None:
        processes = Processes()
        monkeypatch.setattr(BrokerProcess, "start", processes.start)
        options = StartOptions(processes=2, restart_delay=0.01)
        member = Member(1, (), options, data_folder.plan(str(folder), 1, ()), lambda: None)
        keeper = asyncio.ensure_future(member.keep())
        await until_async(lambda: member.hello is not None)
        async with asyncio.timeout(PATIENCE_S):
            await scenario(member, processes)
        member.stop()
        assert await keeper

    asyncio.run(run())


def test_a_supervisor_repeats_failed_starts_with_growing_delays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The defect: on a full disk a broker was restarted every second, endlessly."""
    monkeypatch.setattr(fleet, "LONGEST_DELAY_S", 0.03)

    async def scenario(member: Member, processes: Processes) -> None:
        processes.failing = 4
        processes.all[0].end(1)
        await until_async(lambda: member.hello == Hello(6, [], ""))
        processes.all[-1].end(1)
        await until_async(lambda: len(processes.all) == 7)
        delays = re.findall(r"starting it again in (\S+) s", caplog.text)
        assert delays == ["0.01", "0.01", "0.02", "0.03", "0.03", "0.01"]

    kept(monkeypatch, tmp_path, scenario)


@pytest.mark.parametrize(("code", "level"), [(0, logging.INFO), (1, logging.WARNING)])
def test_the_log_warns_about_the_end_of_a_broker_only_if_its_exit_code_is_not_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, level: int
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(member: Member, processes: Processes) -> None:
        processes.all[0].end(code)
        await until_async(lambda: len(processes.all) == 2)
        assert [each.levelno for each in caplog.records if "starting it again" in each.getMessage()] == [level]

    kept(monkeypatch, tmp_path, scenario)


def test_a_broker_killed_between_two_starts_stays_down_until_it_is_restarted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(member: Member, processes: Processes) -> None:
        processes.all[0].end(1)
        await until_async(lambda: "starting it again in" in caplog.text)
        await member.kill_and_hold()
        await until_async(lambda: "broker 1 stays down" in caplog.text or processes.asked > 1)
        assert processes.asked == 1
        await member.restart()
        assert member.hello == Hello(2, [], "")

    kept(monkeypatch, tmp_path, scenario)


def test_a_broker_killed_by_the_supervisor_during_its_start_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def scenario(member: Member, processes: Processes) -> None:
        processes.gate.clear()
        processes.all[0].end(1)
        await until_async(lambda: processes.asked == 2)
        killing = asyncio.ensure_future(member.kill_and_hold())
        await asyncio.sleep(0)
        processes.gate.set()
        await killing
        assert await processes.all[1].ended() == -9
        await member.restart()
        assert member.hello == Hello(3, [], "")

    kept(monkeypatch, tmp_path, scenario)
