"""Cython hot paths: buffers, record batches, codecs, CRC-32C, sendfile. Knows no config and no event loop."""
