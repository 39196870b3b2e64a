"""The users of a simulated cluster: writers, readers, transactional producers, members of groups.

Start with ``client``: connections, and requests that are answered or not. All of them tell ``oracle.history`` what they
were told. It imports the other rooms of the simulator.
"""
