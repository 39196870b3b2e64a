from typing import final

@final
class Blocks:
    """Memory for batches. Keeps the blocks of finished batches for the next ones, up to ``limit`` bytes."""

    def __init__(self, limit: int) -> None: ...
