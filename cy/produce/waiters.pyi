from typing import final

@final
class Waiters:
    """Functions that are called once, when something is done."""
