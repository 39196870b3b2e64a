"""What tries the broker where no test on a real machine could: power cuts (``crash``), failing disks
(``faulty_storage``), interleaved threads (``interleaving``), whole clusters in virtual time (``simulator``), and
planted defects (``defects``), which prove that the tests look.

It may import everything; the product imports none of it, and it is not in the wheel.
"""
