"""The SDK's consuming side: turns fetched batches into records, Arrow columns, or lines of JSON.

Start with ``fetched`` (the batches of a partition, parsed on demand) and ``records`` (the application's view of
them). This room imports ``wire`` and ``batch``; of the broker, only the command line uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
