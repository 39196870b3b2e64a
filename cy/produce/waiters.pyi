from typing import final

@final
class Waiters:
    """Functions to call once, when something is done."""
