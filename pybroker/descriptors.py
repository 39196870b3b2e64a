"""The errors of a process without free descriptors. They do not mean that a disk or a network has failed."""

from __future__ import annotations

import errno

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Error numbers that mean: process or machine has no free descriptor, or the kernel has no memory for one more."""
