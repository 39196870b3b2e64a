from typing_extensions import Buffer

def siphash(data: Buffer, secret: bytes) -> bytes:
    """SipHash-2-4 of 128 bits under a secret of 16 bytes."""
