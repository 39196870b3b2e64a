# Returns ``headers``, or a list of its pairs if it is neither list, tuple nor dict. Raises TypeError.
cpdef object listed(object headers)

# Returns the count and the headers in the form of a record. ``headers`` are pairs of a name and bytes or None, or a
# dict of these.
cdef bytes encode_headers(object headers)
