"""The SDK's producing side: puts records into queues, batches and requests, and returns their metadata.

Start with ``record_queues`` (what ``send`` calls) and ``producer_batch`` (a batch until it is delivered or has failed).
``produce_template`` makes requests from batches; ``sending`` is the coroutine that the asyncio producer's ``send``
returns. This room imports ``wire`` and ``batch``; no broker uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
