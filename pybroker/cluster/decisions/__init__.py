"""The controller's decisions, as pure functions of the image: no I/O, no clock.

Start with ``plan``: a decision consists of answers, writes to the store, and the delta that they make. ``topics``,
``elections``, ``isr_changes``, ``reassignments`` and ``config_changes`` have one kind of decision each. This room
imports ``cluster/metadata`` and ``config``.
"""
