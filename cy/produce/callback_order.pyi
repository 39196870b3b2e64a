from collections.abc import Callable
from typing import Any

def check_order(callback: Callable[..., Any]) -> int:
    """Raises TypeError where a delivery callback cannot be called with (metadata, error), or where the names of its
    parameters show that it expects the error first, as confluent-kafka calls it. Looked at once per function.
    """

def check_parameters(callback: Callable[..., Any], what: str, first: str) -> None:
    """As ``check_order``, of a callback, in words ``what``, that is called with (``first``, error); each time."""
