"""``pybroker cluster``: ``command`` is the verb, which describes brokers and checks their health.

``rolling_restart`` restarts the brokers of one data folder one after the other. It sends signals to the supervisor's
processes; all other verbs ask brokers as any client does.
"""
