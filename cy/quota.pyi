from typing import Any, final

MOST_MS: int
"""The longest time that a response can name."""

def rounded(milliseconds: float) -> int:
    """As Java rounds; at most what a response can name."""

class Rate:
    """What was recorded per second, as measured over some windows: ``windows`` has their number and size in ms."""

    windows: tuple[int, int]
    def __init__(self, windows: tuple[int, int]) -> None: ...
    def record(self, value: float, now_ms: float) -> None:
        """Counts ``value``; a negative one takes back what was counted."""
    def is_idle(self, now_ms: float) -> bool:
        """Whether nothing that was recorded counts any more."""
    def measured_ms(self, now_ms: float) -> int:
        """The time that the samples cover; at least a millisecond."""
    def per_second(self, now_ms: float) -> float:
        """The rate."""
    def until_ms(self, bound: float, now_ms: float) -> int:
        """How long nothing may be recorded until the rate is ``bound`` again; 0 while it is not above it."""

@final
class Allowance(Rate):
    """How much of something some clients may use per second, and what they have used."""

    bound: float
    """How much per second."""
    most_at_once: int
    """More at once is too much, even of a client that has used nothing. Less in all windows never is."""
    def __init__(self, windows: tuple[int, int], most_ms: int = ...) -> None:
        """``most_ms``: no delay is longer."""
    def use(self, amount: float, now_ms: float) -> int:
        """Counts it; returns how long to wait, in milliseconds."""
    def delay_ms(self, now_ms: float) -> int:
        """How long to wait because of what was used."""
    def use_or_wait(self, amount: float, now_ms: float) -> tuple[bool, int]:
        """As ``use``, but what would be too much is not used; whether it was. A single use is never too much, however
        large, so that the clients get on.
        """

@final
class Share:
    """The quotas that hold for a client; None where there is none."""

    produce: Allowance | None
    fetch: Allowance | None
    request: Allowance | None
    mutations: Any
    is_current: bool
    """False when quotas have changed since: another one holds."""
    def __init__(
        self, produce: Allowance | None, fetch: Allowance | None, request: Allowance | None, mutations: Any
    ) -> None: ...
    def is_within(self, api: str, response: object, size: float, now_s: float) -> bool:
        """Whether a request of ``size`` bytes may be answered by ``response`` without more ado; counts them if it
        produces. Where it may not, or it is not certain, nothing is counted: so where the response has to be waited for.
        """
    def spend(self, seconds: float, now_s: float) -> bool:
        """Counts time of the loop. False, and nothing is counted, where this share is not current."""
