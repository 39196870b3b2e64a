from typing_extensions import Buffer

def measure(data: Buffer) -> tuple[int, int, bool]:
    """Measures a piece of a segment that begins with a batch. Raises ``CorruptBatch``.

    Returns the end of its last whole batch, the size of the incomplete batch after that (0: unknown), and True if a
    batch has an old format.
    """
