"""Headers of a record, encoded; used from Cython only."""
