from typing import final

@final
class Blocks:
    """Memory for batches: spare blocks of those that are done, of ``limit`` bytes at most."""

    def __init__(self, limit: int) -> None: ...
