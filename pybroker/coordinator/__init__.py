"""Coordinators: state machines whose durable state lives in the partitions of an internal topic."""
