"""What is seen of the SDK's log where the application has not configured logging, and where it has."""

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


def test_errors_are_seen_and_nothing_else() -> None:
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
def test_what_the_application_takes_it_takes_alone(first: str) -> None:
    assert stderr_of(TEXT.format(first=first)) == ""


def test_with_a_configuration_everything_is_seen_once() -> None:
    told = stderr_of(TEXT.format(first='logging.basicConfig(format="%(name)s: %(message)s")'))
    assert told == "pyclient.producer: an error\npyclient: a warning\n"
