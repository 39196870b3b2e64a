"""Quotas: how much each client may do, and how long it has to wait after it has done more.

Pure: time (monotonic milliseconds) is an argument. ``rate`` measures, ``client_quotas`` finds what holds for a client,
``arrivals`` is about clients that come. ``cluster.decisions.quota_changes`` says what is stored of quotas.
"""
