"""Quotas: how much each client may do, and how long it must wait after it has exceeded its quota.

Pure functions: time (monotonic milliseconds) is an argument. ``rate`` measures, ``client_quotas`` finds the quotas of a
client, ``arrivals`` limits new connections. ``cluster.decisions.quota_changes`` defines how quotas are stored.
"""
