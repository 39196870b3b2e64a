"""Clients under faults, with histories of what they were told."""
