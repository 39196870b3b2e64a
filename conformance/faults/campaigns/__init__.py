"""Campaigns, each a command: a load, faults drawn from a seed, and a check at the end."""
