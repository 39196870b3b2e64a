"""The core that both faces share: connections, cluster metadata, retries.

``cluster``, ``connection``, ``versions`` and ``backoff`` do no I/O and read no clock; ``transport``,
``node`` and ``client`` perform on one asyncio loop; ``runner`` gives the blocking face such a loop.
"""
