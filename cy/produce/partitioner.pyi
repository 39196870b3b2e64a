from typing import final

@final
class Partitioner:
    """Chooses the partition of a record; called from Cython only. ``seed`` is that of its random numbers."""

    def __init__(
        self, batch_size: int, round_robin: bool, ignore_keys: bool, adaptive: bool, seed: int
    ) -> None: ...
