"""The users of a simulated cluster: writers, readers, transactional producers, members of groups.

Start with ``client``: connections, and requests that are answered or not. Each client reports what brokers answered to
``oracle.history``. This room imports the other rooms of the simulator.
"""
