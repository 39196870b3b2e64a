"""The faults that tests cause in connections, processes and coroutines.

``proxy`` loses, delays and cuts messages between a client and a broker. ``network`` cuts machines from each other, in
namespaces of their own. ``hanging`` makes a process hang, ``cancelling`` cancels a coroutine at its n-th step. Tests of
every floor use them; the campaigns of ``conformance/faults`` have more.
"""
