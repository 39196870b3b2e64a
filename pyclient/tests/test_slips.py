"""What a newcomer's slips are answered with: each error says what to write, or which setting counts."""

from __future__ import annotations

import pytest

from pyclient import Admin
from pyclient.errors import ConnectionFailed

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "call", [lambda admin: admin.list_topics(timeout=0.3), lambda admin: admin.create_topics("t", timeout=0.3)]
)
def test_admin_without_a_broker_says_for_how_long_and_which_setting_limits_it(call) -> None:
    told = r"127\.0\.0\.1:1: connect failed.* \(still failing after 0\.\d+ s; the limit is default\.api\.timeout\.ms or"
    with Admin(NOWHERE) as admin, pytest.raises(ConnectionFailed, match=told):
        call(admin)
