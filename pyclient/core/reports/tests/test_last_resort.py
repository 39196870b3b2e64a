"""The SDK's log lines with and without a logging configuration of the application."""

from __future__ import annotations

import pytest

from pyclient.tests.closing.test_unclosed import stderr_of

pytestmark = pytest.mark.nightly

TEXT = """
import logging
from pyclient.core.nodes import node
{first}
logging.getLogger("pyclient.producer").error("an error")
logging.getLogger("pyclient").warning("a warning")
"""


def test_only_errors_reach_stderr_without_a_logging_configuration() -> None:
    assert stderr_of(TEXT.format(first="")) == "an error\n"


@pytest.mark.parametrize(
    "first",
    [
        'logging.getLogger("pyclient").addHandler(logging.NullHandler())',
        'logging.getLogger("pyclient.producer").addHandler(logging.NullHandler())',
        "logging.getLogger().addHandler(logging.NullHandler())",
        "logging.lastResort = None",
        "logging.disable()",
    ],
)
def test_log_lines_with_a_handler_of_the_application_do_not_reach_stderr(first: str) -> None:
    assert stderr_of(TEXT.format(first=first)) == ""


def test_with_a_logging_configuration_each_line_appears_once() -> None:
    told = stderr_of(TEXT.format(first='logging.basicConfig(format="%(name)s: %(message)s")'))
    assert told == "pyclient.producer: an error\npyclient: a warning\n"
