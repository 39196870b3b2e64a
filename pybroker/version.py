"""The version of what is installed."""

from __future__ import annotations


def version() -> str:
    """``0.1.0``; ``unknown (not installed)`` where sources run that are not installed."""
    from importlib.metadata import PackageNotFoundError  # costs 20 ms
    from importlib.metadata import version as version_of

    try:
        return version_of("pybroker")
    except PackageNotFoundError:
        return "unknown (not installed)"
