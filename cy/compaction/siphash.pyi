from typing_extensions import Buffer

def siphash(data: Buffer, secret: bytes) -> bytes:
    """Returns the 128-bit SipHash-2-4 of the bytes under a secret of 16 bytes."""
