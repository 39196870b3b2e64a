"""The cluster as one broker sees it: its metadata, its brokers, and the controller.

Start with ``node``, which creates all parts, and ``controller``, which performs the plans that ``decisions`` makes.
``metadata`` is the image in memory and the format of its nodes in the store; ``nodes`` reads and writes these nodes.
``membership`` registers this broker. This room imports ``store`` and ``config``, and knows neither logs nor sockets.
"""
