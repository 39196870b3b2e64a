"""Trials: short scripts on three brokers, each at the one moment at which a broken promise shows."""
