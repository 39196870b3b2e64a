from typing_extensions import Buffer

def measure(data: Buffer) -> tuple[int, int, bool]:
    """Measures a piece of a segment that begins with a batch. Raises ``CorruptBatch``.

    Returns where its last whole batch ends, the size of the batch that its end cuts (0: unknown), and True if a batch
    has an old format.
    """
