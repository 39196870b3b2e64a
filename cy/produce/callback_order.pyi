from collections.abc import Callable
from typing import Any

def check_order(callback: Callable[..., Any]) -> int:
    """Raises TypeError for a delivery callback that cannot be called with (metadata, error).

    Also refuses a callback whose parameter names show that it expects the error first, as with confluent-kafka. Checks
    each function once.
    """

def check_parameters(callback: Callable[..., Any], what: str, first: str) -> None:
    """Checks a callback that is called with (``first``, error), as ``check_order`` does, but each time. ``what`` names
    the callback in the message.
    """
