"""Checks what must hold after every event and at the end of a history.

Start with ``oracle``, which compares logs; ``keeping`` and ``retention`` are parts of it. ``history`` records what
brokers answered to clients, ``group_oracle`` what coordinators answered to members. This room imports ``machines``, and
changes nothing there.
"""
