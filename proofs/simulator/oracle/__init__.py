"""What must hold after every event and at the end of a history, and the books for that.

Start with ``oracle``, which looks at logs; ``keeping`` and ``retention`` are parts of it. ``history`` has what clients
were told, ``group_oracle`` what members of groups were. It imports ``machines``, and disturbs nothing.
"""
