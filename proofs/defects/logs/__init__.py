"""Planted defects of logs, log dirs and deletions."""
