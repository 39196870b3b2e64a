"""The keys of producer, consumer and admin."""

from __future__ import annotations


class Config:
    """Values by key."""
