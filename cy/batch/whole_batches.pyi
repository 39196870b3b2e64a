from typing_extensions import Buffer

def measure(data: Buffer) -> tuple[int, int, bool]:
    """Of a piece of a segment that begins with a batch: where its last whole batch ends; the size of the batch that it
    cuts, 0 where that is not known; whether a batch has an old format. ``CorruptBatch``.
    """
