"""Campaigns: a load, faults drawn from a seed, and a check at the end. Each is a command."""
