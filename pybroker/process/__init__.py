"""Processes: the supervisor, the brokers that it starts, their folders, options and log lines."""
