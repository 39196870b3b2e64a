"""Runs clients under faults, and keeps histories of the answers that they got."""
