"""Tries the broker where no test on a real machine could: power cuts (``crash``), failing disks (``faulty_storage``),
interleaved threads (``interleaving``), and whole clusters in virtual time (``simulator``). Planted defects
(``defects``) prove that the tests find something.

It may import everything; the product imports none of it, and it is not in the wheel.
"""
