"""The way from this machine to brokers: names, ports, protocol, and the addresses that brokers advertise.

The doctor reports what is found here, and so do verbs that wait for a broker. It imports nothing else of the command
line.
"""
