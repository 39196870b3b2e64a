"""Reads and writes the cluster's nodes in the store, and takes the lead of the controller there."""
