"""The machines that simulated processes run on: virtual time, disks, a network, the coordination store, and the
brokers.

Start with ``scheduler`` (one queue of events) and ``cluster`` (machines and their processes). ``broker`` is
production's, with rooms from here at its edges. ``environment`` replaces its random numbers and threads. This room
knows no client, no fault and no invariant.
"""
