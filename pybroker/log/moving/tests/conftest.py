"""Logs of these tests are small, and are closed like large ones."""

from pybroker.log.tests.conftest import snapshots_of_small_logs  # noqa: F401
