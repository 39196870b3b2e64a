"""Tries the broker where no test on a real machine could: power cuts (``crash``), failing disks (``faulty_storage``),
interleaved threads (``interleaving``), and whole clusters in virtual time (``simulator``). Planted defects
(``defects``) prove that the tests find something.

Tests prove here what no test on a real machine could: power cuts (``crash``), failing disks (``faulty_storage``),
interleaved threads (``interleaving``), and whole clusters in virtual time (``simulator``). Planted defects
(``defects``) prove that the tests find something.
"""
