"""Membership of a consumer in its group: ``classic`` and ``modern`` (KIP-848) are two protocols behind one interface.

``membership`` has the common part. From the rest of the consumer it imports only subscription, appointments and
commits. The assignors of the classic protocol are in ``consumer/assignors``.
"""
