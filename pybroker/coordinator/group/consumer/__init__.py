"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members follow by epochs.

Start with ``group`` (one group) and ``heartbeating`` (what a member's heartbeat does). ``targeting`` makes the
assignment that shall be, ``reconciling`` leads each member there; ``timeouts`` removes late ones, ``expecting`` says
what they owe. ``records`` is what is written, ``migration`` changes a group's protocol. It imports
the rest of ``coordinator/group``.
"""
