from cy.produce.arrow_column cimport BytesColumn

cdef enum:
    OTHER = -2              # in place of a length: the item is neither bytes nor None


cdef class ItemColumn(BytesColumn):
    cdef tuple items
