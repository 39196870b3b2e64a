"""Membership of a consumer in its group: ``classic`` and ``modern`` (KIP-848) are two protocols behind one interface.

``membership`` has what both share. It imports the rooms above only for subscription, appointments and commits. The
assignors of the classic protocol are beside it, in ``consumer/assignors``.
"""
