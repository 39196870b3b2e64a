"""The core that both faces share: connections, cluster metadata, retries.

Start with ``client``. It stands on ``nodes``, the way to the brokers, and on ``metadata``, which keeps ``cluster``
fresh. ``security`` has TLS and SASL, ``reports`` has what the application is told beside errors, and ``threads`` gives
the blocking face a loop. ``cluster``, ``interest`` and ``backoff`` do no I/O and read no clock.
"""
