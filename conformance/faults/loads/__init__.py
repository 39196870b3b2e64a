"""Clients under faults: what they do, and the histories of what they were told."""
