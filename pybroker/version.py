"""The version of what is installed."""

from __future__ import annotations


def version() -> str:
    """The version, such as ``0.1.0``. ``unknown (not installed)`` if the sources run without being installed."""
    from importlib.metadata import PackageNotFoundError  # costs 20 ms
    from importlib.metadata import version as version_of

    try:
        return version_of("pybroker")
    except PackageNotFoundError:
        return "unknown (not installed)"
