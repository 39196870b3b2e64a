"""When a call gives up, and which setting limits it."""

from __future__ import annotations

from typing import Final, Self

from pyclient.core.reports.doctor import doctor

MAX_BLOCK: Final = "max.block.ms"
API_TIMEOUT: Final = "default.api.timeout.ms"


class Deadline(float):
    """A point in time of a client's clock. ``setting`` is the key that the call's time comes from; None if its caller
    gave a timeout.
    """

    setting: str | None

    def __new__(cls, at: float, setting: str | None = None) -> Self:
        self = super().__new__(cls, at)
        self.setting = setting
        return self


def after(passed: float, deadline: float, address: str) -> str:
    """Returns how many seconds a call tried to reach ``address``, as the end of an error's text. If a setting limits
    the call, the text also names the setting, and the command that finds the cause.
    """
    setting = deadline.setting if isinstance(deadline, Deadline) else None
    more = "" if setting is None else f"; the limit is {setting}; {doctor(address)}"
    return f" (still failing after {passed:.3g} s{more})"
