"""The loops of a compaction: keys into a map, batches written with what is left of them, their indexes."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
