"""Processes: the supervisor, the brokers that it starts, their options and log lines.

Start with ``supervisor``: from options to exit code. ``fleet`` starts and restarts brokers. ``foreground`` has the
loop, the signals and the ready line. ``start_options`` makes the configuration. This room imports ``server``, ``store``
and ``config``, and does not know the protocol.
"""
