from typing import Any, final

MOST_MS: int
"""The longest time that a response can name."""

def rounded(milliseconds: float) -> int:
    """Rounds milliseconds as Java does, to at most ``MOST_MS``."""

class Rate:
    """A rate per second, measured over some windows. ``windows`` has their number and size in ms."""

    windows: tuple[int, int]
    def __init__(self, windows: tuple[int, int]) -> None: ...
    def record(self, value: float, now_ms: float) -> None:
        """Counts ``value``. A negative value takes back what was counted."""
    def is_idle(self, now_ms: float) -> bool:
        """Returns True if all records are too old to count."""
    def measured_ms(self, now_ms: float) -> int:
        """Returns the time that the samples cover, at least a millisecond."""
    def per_second(self, now_ms: float) -> float:
        """Returns the rate."""
    def until_ms(self, bound: float, now_ms: float) -> int:
        """Returns how long nothing may be recorded until the rate has fallen to ``bound``. Returns 0 if the rate is not
        above it.
        """

@final
class Allowance(Rate):
    """What some clients may use per second, and what they have used."""

    bound: float
    """How much they may use per second."""
    most_at_once: int
    """The most that a client may use at once, even if it has used nothing before."""
    def __init__(self, windows: tuple[int, int], most_ms: int = ...) -> None:
        """No delay is longer than ``most_ms``."""
    def use(self, amount: float, now_ms: float) -> int:
        """Counts ``amount``. Returns how many milliseconds to wait."""
    def delay_ms(self, now_ms: float) -> int:
        """Returns how many milliseconds to wait because of what was used."""
    def use_or_wait(self, amount: int, now_ms: int) -> tuple[bool, int]:
        """Counts ``amount``, unless it would be too much. Returns True if it was counted, and how many milliseconds to
        wait. A single use is never too much, however large, so clients always make progress.
        """

@final
class Share:
    """The quotas of a client. Each is None if there is none."""

    produce: Allowance | None
    fetch: Allowance | None
    request: Allowance | None
    mutations: Any
    is_current: bool
    """False after quotas have changed, because another share then applies."""
    def __init__(
        self, produce: Allowance | None, fetch: Allowance | None, request: Allowance | None, mutations: Any
    ) -> None: ...
    def is_within(self, produces: bool, response: object, size: int, now_s: float) -> bool:
        """Returns True if a request of ``size`` bytes may be answered by ``response`` at once.

        If so, and if the request ``produces``, counts its bytes. Otherwise counts nothing. Counts nothing either if the
        response must be awaited.
        """
    def spend(self, seconds: float, now_s: float) -> bool:
        """Counts time of the loop. If this share is no longer current, returns False and counts nothing."""
