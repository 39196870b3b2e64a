"""What a log remembers of producers, to detect duplicates, to fence old epochs, and to know open transactions.

Start with ``producer_state``: all producers of a log. ``producer_entry`` is one producer. ``producer_journal`` undoes
changes of producers after a truncation, ``producer_snapshot`` is their file, and ``marker`` ends a transaction. This
room imports only ``log/files``.
"""
