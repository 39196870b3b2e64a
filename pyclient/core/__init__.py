"""The core of both clients, blocking and asyncio: connections, cluster metadata, retries.

Start with ``client``. It uses ``nodes``, the connections to brokers, and ``metadata``, which keeps ``cluster`` fresh.
``security`` has TLS and SASL, ``reports`` has log lines and warnings, and ``threads`` gives the blocking client a loop.
``cluster``, ``interest`` and ``backoff`` do no I/O and read no clock.
"""
