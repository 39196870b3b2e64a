"""Subscriptions of consumer groups: the topics that members read, by name or by regular expression.

Start with ``subscriptions``. ``regexes`` resolves expressions off the loop, ``resolved`` is what they resolve to.
``topics`` has topics as groups see them, with the hash that shows a change. ``targeting`` assigns their partitions.
"""
