"""Tests that no real machine could run repeatably: power cuts (``crash``), failing disks (``faulty_storage``),
interleaved threads (``interleaving``), and whole clusters in virtual time (``simulator``). Planted defects
(``defects``) prove that the tests find something.
"""
