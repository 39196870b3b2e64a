"""Reads processes and their children from /proc."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness import processes

pytestmark = pytest.mark.nightly
BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
#: This waits for a child that ends, then for its own time, then says so and lives.
PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\n{BURN}print(flush=True)\ninput()\n"


def test_the_cpu_time_of_a_process_tree_includes_ended_children() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        assert parent.pid in processes.children(os.getpid())
        assert processes.family_cpu_s(parent.pid) >= 0.38
        assert processes.cpu(parent.pid).total_s < processes.family_cpu_s(parent.pid)
        parent.kill()


def test_a_process_that_has_ended_has_no_children() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert processes.children(ended.pid) == []
    assert processes.family_cpu_s(ended.pid) == 0
