"""The cluster as one broker sees it: its metadata, who belongs to it, and the controller.

Start with ``node``, which puts it together, and ``controller``, which performs what ``decisions`` decide. ``metadata``
is the image in memory and in the store, ``nodes`` reads and writes it there; ``membership`` registers this broker.
It imports ``store`` and ``config``, and knows neither logs nor sockets.
"""
