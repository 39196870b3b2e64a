"""The files of a log dir, one format a file: indexes, checkpoints, ``meta.properties``; and the storage under them."""
