"""When a call gives up, and which setting limits it."""

from __future__ import annotations

from typing import Final, Self

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


def after(passed: float, deadline: float) -> str:
    """Returns the end of an error's text: how many seconds a call has tried, and which setting, if any, limits it."""
    setting = deadline.setting if isinstance(deadline, Deadline) else None
    limit = "" if setting is None else f"; the limit is {setting}"
    return f" (still failing after {passed:.3g} s{limit})"
