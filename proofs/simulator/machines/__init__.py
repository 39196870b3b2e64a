"""What simulated processes run on: virtual time, disks, a network, the coordination store; and the brokers themselves.

Start with ``scheduler`` (one queue of events) and ``cluster`` (machines and their processes). ``broker`` is
production's, with rooms from here at its edges; ``environment`` gives it chance and threads. It knows no client, no
fault and nothing of what must hold.
"""
