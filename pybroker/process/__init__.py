"""Processes: the supervisor, the brokers that it starts, their options and log lines.

Start with ``supervisor``: from options to exit code. ``fleet`` starts brokers and starts them again, ``foreground`` has
the loop, the signals and the ready line, ``start_options`` makes the configuration. It imports
``server``, ``store`` and ``config``, and knows nothing of the protocol.
"""
