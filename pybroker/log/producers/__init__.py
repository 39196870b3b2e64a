"""What a log remembers of producers: duplicates, fencing, ongoing transactions.

Start with ``producer_state``: all producers of a log. ``producer_entry`` is one of them, ``producer_journal`` undoes
their changes after a truncation, ``producer_snapshot`` is their file, and ``marker`` ends a transaction. This room
imports only ``log/files``.
"""
