"""The errors of a process without free descriptors: neither a disk nor a network has failed."""

from __future__ import annotations

import errno

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The process, or the machine, is out of descriptors, or the kernel has no memory for one more."""
