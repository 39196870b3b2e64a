"""What verbs print on stderr beside their result."""

from __future__ import annotations

import logging

import pytest

from pybroker.cli.common.verbs import heard


def test_client_warnings_are_shown_as_diagnostics_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logger = logging.getLogger("pyclient.diagnostics")
    logger.addHandler(logging.NullHandler())
    with heard(logger.name):
        logger.info("never")
        logger.warning("%s-%d waits", "t", 0)
    logger.warning("not any more")
    assert capsys.readouterr().err == "pybroker: t-0 waits\n"
