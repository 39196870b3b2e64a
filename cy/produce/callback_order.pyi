from collections.abc import Callable
from typing import Any

def check_order(callback: Callable[..., Any]) -> int:
    """Raises TypeError for a delivery callback that cannot be called with (metadata, error).

    It also refuses a callback whose parameter names show that it expects the error first, as confluent-kafka calls it.
    Each function is checked once.
    """

def check_parameters(callback: Callable[..., Any], what: str, first: str) -> None:
    """Checks as ``check_order`` does, each time, a callback that is called with (``first``, error).

    ``what`` names it in the message.
    """
