from typing import final

@final
class Partitioner:
    """Which partition a record goes to; asked from Cython only. ``seed``: of its lots."""

    def __init__(
        self, batch_size: int, round_robin: bool, ignore_keys: bool, adaptive: bool, seed: int
    ) -> None: ...
