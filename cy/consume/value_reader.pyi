from collections.abc import Callable
from typing import Any, final

Failed = Callable[[str, int, int, Exception], Exception]

@final
class Reader:
    """A deserializer, and how it is called."""

    function: Callable[..., Any]
    takes_topic: bool
    """True if it is called with (topic, data), False if with the data alone."""

    def __init__(self, function: Callable[..., Any], takes_topic: bool, failed: Failed) -> None:
        """If the function raises ``error``, ``failed(topic, partition, offset, error)`` returns the exception to
        raise.
        """
