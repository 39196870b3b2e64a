"""What the pages tell the reader to type works, and prints what they say."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from docs.tests.blocks import ROOT, Block, Shell, blocks, is_as_expected
from harness.servers.brokers import KINDS, Broker, free_port

LIBRARIES = (
    ("confluent_kafka", "confluent_kafka.admin"),
    ("kafka", "kafka.admin", "kafka.consumer.fetcher", "kafka.producer.future"),
    ("aiokafka", "aiokafka.admin"),
    ("pyclient", "cy.produce.producer_batch"),
)
PROTECTED = ROOT / "docs" / "protect-a-broker.md"
PROTECTED_ADDRESS = "localhost:9094"
PAGES = ("README.md", "docs/tutorial.md", "docs/coming-from.md", "docs/testing.md")


@pytest.fixture(scope="module")
def kind(pytestconfig: pytest.Config) -> type[Broker]:
    """Ours, or with ``--broker=kafka`` a real Kafka: the pages hold for both."""
    return KINDS[pytestconfig.getoption("--broker")]


@pytest.fixture(scope="module")
def broker(kind: type[Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all pages: a reader goes on from one to the next, and none may disturb another."""
    with kind(tmp_path_factory.mktemp("data"), **{"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_and_print_what_it_says_behind_those_of_the_page_before(
    page: str, tmp_path: Path, broker: Broker
) -> None:
    (tmp_path / "reader").mkdir()
    run_all(ROOT / page, Shell(tmp_path / "reader", broker.bootstrap))


@pytest.mark.nightly
def test_the_way_to_a_protected_broker_leads_to_its_end(tmp_path: Path) -> None:
    """The page starts its own broker."""
    try:
        run_all(PROTECTED, Shell(tmp_path, f"localhost:{free_port()}", PROTECTED_ADDRESS))
    except BaseException:
        with contextlib.suppress(OSError):
            os.kill(int((tmp_path / "broker.pid").read_text()), signal.SIGKILL)
        raise


def run_all(page: Path, shell: Shell) -> None:
    """Runs each block of a page, and looks at what it prints."""
    found = list(blocks(page.read_text(encoding="utf-8")))
    assert found
    for block in found:
        printed = shell.run(block)
        if block.expected is not None:
            assert is_as_expected(printed, block.expected), f"{page.name}:{block.line} printed\n{printed}"


def test_every_link_of_a_page_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_pages_of_the_site_link_only_to_pages_of_the_site() -> None:
    """Its strict build refuses others, but only in the nightly tier."""
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).resolve().is_relative_to(docs), f"{page.relative_to(ROOT)} links to {target}"


def test_blocks_are_found_with_what_they_print_and_spared_where_the_page_says_so() -> None:
    text = "```sh\na\n```\n\n```text\nout\n```\n<!-- not run: why -->\n```sh\nb\n```\nprose\n```python\nc\n```\n"
    assert list(blocks(text)) == [Block(2, "sh", "a\n", "out\n"), Block(14, "python", "c\n", None)]


def test_an_ellipsis_stands_for_anything_and_nothing_else_does() -> None:
    assert is_as_expected("took 17 ms\n", "took … ms\n")
    assert not is_as_expected("took 17 ms\nmore\n", "took … ms\n")
    assert not is_as_expected("axb\n", "a.b\n")


def columns_of(page: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    text = (ROOT / page).read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [row.strip("|").split("|") for row in text.splitlines() if row.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of kafka-python
def test_every_name_in_the_table_of_equivalents_is_one_of_its_library() -> None:
    libraries = [[import_module(name) for name in names] for names in LIBRARIES]
    rows = columns_of("docs/coming-from.md", "Names")
    assert len(rows) > 20
    for _, *cells in rows:
        for cell, modules in zip(cells, libraries, strict=True):
            if cell != "–":
                owner, _, name = cell.strip("`").partition(".")
                found = next((getattr(module, owner) for module in modules if hasattr(module, owner)), None)
                assert hasattr(found, name) or name in getattr(found, "__dataclass_fields__", ()), cell
    assert all(cells[-1] != "–" for cells in rows)
