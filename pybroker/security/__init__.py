"""What protects a listener: its TLS contexts, and who its clients are. It opens no connection.

A broker without a secured listener imports nothing of it.
"""
