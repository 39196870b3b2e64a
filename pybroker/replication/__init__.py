"""The partitions of a broker: leader epochs, the replicas in sync, the high watermark, and requests that wait for them.

Start with ``partition`` (one replica) and ``replica_manager`` (all replicas of a broker). The work of followers is in
``following``; the work of their leader is in ``leading``, ``isr`` and ``promises``. This room imports ``log`` and
``cluster``. It does not know the wire protocol: requests arrive as values, and callbacks get the answers.
"""
