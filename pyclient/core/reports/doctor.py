"""Names the command that finds out why a client cannot reach a broker."""

from __future__ import annotations


def doctor(address: str) -> str:
    """Returns what to run for this ``host:port``, as the end of an error's text. A broker whose address is unknown has
    a name without a port.
    """
    where = f" -b {address}" if ":" in address else ""
    return f"`pybroker doctor{where}` finds out why"
