"""Planted defects of replication, the controller, and the coordination store."""
