"""Cython hot paths: buffers, record batches, codecs, CRC-32C, sendfile. Knows no config and no event loop.

In a clone's folder that nothing was compiled in, the modules of an installed ``cy`` are taken: Python finds the folder
first.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
