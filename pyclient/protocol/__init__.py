"""The wire protocol, without I/O except in ``stream``: schemas, message classes, codecs, frames, errors.

``from pyclient.protocol import Fetch``: every API of ``schemas/`` is a name of this package. The types of their
messages are in ``__init__.pyi``, which ``python -m pyclient.protocol.stubs`` writes.
"""

from __future__ import annotations

from pyclient.protocol.apis import ALL
from pyclient.protocol.messages import ZERO_UUID

globals().update({api.name: api for api in ALL})

__all__ = ["ZERO_UUID", *(api.name for api in ALL)]
