"""Kafka's own scripts by name: ``pybroker kafka-topics`` (also ``kafka-topics.sh``) takes the options of that script
and answers as it does. So the commands in Kafka's documents work as they are written.

Exit codes are those of the other verbs: what a script calls a wrong usage ends with 2, not 1.
"""
