from typing import final

@final
class Partitioner:
    """Chooses the partition of a record. Only Cython code calls it. ``seed`` starts its random numbers."""

    def __init__(
        self, batch_size: int, round_robin: bool, ignore_keys: bool, adaptive: bool, seed: int
    ) -> None: ...
