"""The way from this machine to brokers: names, ports, protocol, and the addresses that brokers advertise.

The doctor and verbs that wait for a broker report the findings of this room. It imports nothing else of the command
line.
"""
