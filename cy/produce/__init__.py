"""The SDK's way out: a record goes into a queue, a batch and a request, and its metadata come back.

Start with ``record_queues`` (what ``send`` calls) and ``producer_batch`` (a batch until it is told).
``produce_template`` makes requests of batches, ``sending`` writes them. It imports ``wire`` and ``batch``; no broker
uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
