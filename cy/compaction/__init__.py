"""The inner loops of a compaction: read keys into a map, rewrite batches without old records, build indexes.

Start with ``key_scanner`` (the first half) and ``batch_filter`` (the second). It imports ``batch``; only the broker's
log uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
