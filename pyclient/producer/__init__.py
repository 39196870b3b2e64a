"""The producer: ``pyclient.Producer`` (blocking.py), ``pyclient.aio.Producer`` (asynchronous.py).

A record goes ``send`` -> ``cy.produce.record_queues`` (partition, batch) -> ``sender`` -> broker; what may
go in a partition says ``lane``, under which producer id ``identity`` and ``transactions``.
"""
