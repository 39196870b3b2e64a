"""What the controller decides, as pure functions of the image: no I/O, no clock.

Start with ``plan``: what each decision is, namely answers, writes to the store, and the change that they make.
``topics``, ``elections``, ``isr_changes``, ``reassignments`` and ``config_changes`` have one kind of decision each.
It imports ``cluster/metadata`` and ``config``.
"""
