"""The version of the installed package."""

from __future__ import annotations


def version() -> str:
    """Returns the version, such as ``0.1.0``, or ``unknown (not installed)`` if the sources run without being
    installed.
    """
    from importlib.metadata import PackageNotFoundError  # takes 20 ms
    from importlib.metadata import version as version_of

    try:
        return version_of("pybroker")
    except PackageNotFoundError:
        return "unknown (not installed)"
