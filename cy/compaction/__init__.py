"""The loops of a compaction: keys into a map, batches written with what is left of them, their indexes.

Start with ``key_scanner`` (the first half) and ``batch_filter`` (the second). It imports ``batch``; only the broker's
log uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
