"""Cython hot paths: buffers, record batches, codecs, CRC-32C, sendfile. Knows no config and no event loop.

Python finds a clone's folder before an installed ``cy``. If nothing is compiled there, the installed modules are used.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
