"""For other Cython modules: everything lies in the modules below this one, under these names."""

from cy.batch_header cimport Batch, any_crc_holds, crc_holds, parse_header
from cy.batch_reader cimport Record, RecordView, parse_record
