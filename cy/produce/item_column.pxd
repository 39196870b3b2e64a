from cy.produce.arrow_column cimport BytesColumn

cdef enum:
    OTHER = -2              # instead of a length: no bytes, and not None


cdef class ItemColumn(BytesColumn):
    cdef tuple items
