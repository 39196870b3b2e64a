"""``pybroker cluster``: ``command`` is the verb, which describes brokers and checks their health.

``rolling_restart`` restarts the brokers of one data folder one after the other. It signals the supervisor's processes;
everything else asks brokers as any client does.
"""
