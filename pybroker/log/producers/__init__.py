"""What a log remembers of producers: duplicates, fencing, ongoing transactions.

Start with ``producer_state``: all producers of a log. ``producer_entry`` is one of them, ``producer_journal`` undoes
what a cut takes away, ``producer_snapshot`` is the file of them, ``marker`` ends a transaction. It imports
``log/files`` only.
"""
