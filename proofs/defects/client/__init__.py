"""Planted defects of the client SDK."""
