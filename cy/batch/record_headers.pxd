# ``headers`` as a list, a tuple or a dict; of another mapping, or iterable, a list of its pairs.
# Raises TypeError.
cpdef object listed(object headers)

# The count and the headers as they lie in a record. ``headers``: pairs of a name and bytes or None,
# or a dict of them.
cdef bytes encode_headers(object headers)
