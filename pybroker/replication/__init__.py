"""The partitions of a broker: leader epochs, the replicas in sync, the high watermark, and requests that wait for them.

Start with ``partition`` (one replica) and ``replica_manager`` (all of a broker). What followers do is in
``following``; what their leader does is in ``leading``, ``isr`` and ``promises``.
It imports ``log`` and ``cluster``. It knows no wire: requests arrive as values, and the answers are callbacks.
"""
