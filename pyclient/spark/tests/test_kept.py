"""The clients that a process keeps from task to task, and how many of them."""

from __future__ import annotations

from pyclient.spark.kept import MOST, Kept


def test_a_client_is_reused_by_its_settings_and_surplus_ones_are_closed() -> None:
    closed: list[str] = []
    kept = Kept(closed.append)
    for number in range(MOST + 2):
        kept.put({"client.id": str(number)}, f"client {number}")
    assert closed == ["client 0", "client 1"]
    assert kept.take({"client.id": "2"}, lambda: "new") == "client 2"
    assert kept.take({"client.id": "2"}, lambda: "new") == "new"


def test_the_newer_of_two_clients_with_the_same_settings_is_kept() -> None:
    closed: list[str] = []
    kept = Kept(closed.append)
    for name in ("old", "new"):
        kept.put({}, name)
    assert closed == ["old"]
    assert kept.take({}, str) == "new"
