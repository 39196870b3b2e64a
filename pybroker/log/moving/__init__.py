"""Moves of logs between log dirs (KIP-113), and which log is it where two have one name."""
