"""What docs/cluster.md tells the reader to type works on three brokers, and prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import pybroker
from docs.tests.blocks import ROOT, Shell, blocks, is_as_expected

pytestmark = pytest.mark.nightly


def test_the_blocks_of_the_page_run_and_print_what_it_says(tmp_path: Path) -> None:
    found = list(blocks((ROOT / "docs/cluster.md").read_text(encoding="utf-8")))
    assert len(found) > 3
    with pybroker.run(processes=3, default_replication_factor=3, min_insync_replicas=2) as cluster:
        shell = Shell(tmp_path, cluster.bootstrap_servers)
        for block in found:
            printed = shell.run(block)
            if block.expected is not None:
                assert is_as_expected(printed, block.expected), f"docs/cluster.md:{block.line} printed\n{printed}"
