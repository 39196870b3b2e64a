"""Assigns defects of promises to the checks that find them: simulated histories, and trials of three real brokers.

The seed or the timing decides what breaks first. So a defect lists every invariant that may report it.
"""

from __future__ import annotations

import re

from proofs.defects import Register, defect

HISTORIES = "proofs/simulator/tests/test_shapes.py::test_every_invariant_holds"
THOUSANDS = f"{HISTORIES}_in_thousands_of_histories"
TRIALS = "conformance/faults/test_trials.py::test_a_trial_finds_no_anomaly"

LOGS = ("agreement", "durability", "isr", "min.insync", "ack", "watermark", "sequence", "settles", "kept")
TRANSACTIONS = ("transaction", "reading", "settles", "durability", "isr")
MEMBERS = ("one owner", "offsets", "answered", "settles")
TWICE = ("duplicate", "order")


def in_histories(shape: str, *invariants: str, rarely: bool = False) -> Register:
    """Expects that simulated histories of that shape break one of the invariants; ``rarely``: it takes thousands of
    them.
    """
    return defect(f"{THOUSANDS if rarely else HISTORIES}[{shape}]", says=_found(invariants))


def in_trial(trial: str, *anomalies: str) -> Register:
    """Expects that the trial finds one of the anomalies."""
    return defect(f"{TRIALS}[{trial}]", says=_found(anomalies))


def _found(kinds: tuple[str, ...]) -> str:
    return f"found ({'|'.join(map(re.escape, kinds))}): "
