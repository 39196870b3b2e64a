"""The CPU time, memory and files of a process, read from /proc."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU time that a process has used, in seconds."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.user_s - other.user_s, self.system_s - other.system_s)


def cpu(pid: int) -> Cpu:
    """Returns the CPU time of all threads of a process, also of those that have ended.

    The scheduler's nanoseconds (``schedstat``) are exact, but end with their thread and do not tell user from system
    time. The ticks of ``stat``, of 10 ms, include both kinds and ended threads.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Cpu(int(fields[11]) / TICKS_PER_SECOND, int(fields[12]) / TICKS_PER_SECOND)


def cpu_ns(pid: int) -> int:
    """Returns the CPU time of the threads that are alive, from ``schedstat``. It is exact enough to measure idle
    processes.
    """
    return sum(
        int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def rss_kib(pid: int) -> int:
    """Returns the resident memory in KiB."""
    return _status(pid, "VmRSS")


def peak_rss_kib(pid: int) -> int:
    """Returns the largest resident memory so far (or since ``reset_peak``), in KiB."""
    return _status(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    """Restarts the measurement of ``peak_rss_kib``."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise ProcessLookupError(f"{name} of process {pid}")


def available_memory() -> int:
    """Returns the bytes that the machine could give to a process now."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise LookupError("MemAvailable in /proc/meminfo")


def open_files(pid: int) -> int:
    """Returns the number of file descriptors that a process holds."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def family_cpu_s(pid: int) -> float:
    """Returns the CPU seconds of a process and its descendants, also of those that have ended and were waited for."""
    own = 0.0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has just ended
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    return own + sum(family_cpu_s(child) for child in children(pid))


def children(pid: int) -> list[int]:
    """Returns the direct children of this process."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one of its threads
                found += map(int, (task / "children").read_text().split())
    return found
