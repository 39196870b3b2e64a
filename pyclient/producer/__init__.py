"""The producer: ``pyclient.Producer`` (blocking.py), ``pyclient.aio.Producer`` (asynchronous.py).

A record goes ``send`` -> ``cy.produce.record_queues`` (partition, batch) -> ``sender`` -> broker. ``in_flight`` decides
what may be sent to a partition. ``identity`` and ``transactions`` decide under which producer id.
"""
