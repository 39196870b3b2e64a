"""Scenarios on one store."""

from pybroker.cluster.tests.conftest import run  # noqa: F401
