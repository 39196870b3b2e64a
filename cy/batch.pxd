"""For other Cython modules: the functions below this one, under these names.

The classes are cimported from where they are (``cy.batch_header``, ``cy.batch_reader``): a cimport
here would hide them from Python.
"""

from cy.batch_header cimport any_crc_holds, crc_holds, parse_header
from cy.batch_reader cimport RecordView, parse_record
