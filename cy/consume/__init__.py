"""The SDK's way in: fetched batches become records, columns of Arrow, or lines of JSON.

Start with ``fetched`` (the batches of a partition, parsed as they are wanted) and ``records`` (what the application
sees of them). It imports ``wire`` and ``batch``; of the broker only the command line uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
