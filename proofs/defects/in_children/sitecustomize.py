"""Plants the defect that ``PYBROKER_DEFECT`` names in a child process of a test; Python imports this at its start."""

import os

if "PYBROKER_DEFECT" in os.environ:
    from proofs.defects import plant

    plant(os.environ["PYBROKER_DEFECT"])
