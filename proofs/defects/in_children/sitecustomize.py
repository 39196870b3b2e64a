"""Plants the defect that ``PYBROKER_DEFECT`` names in a test's child process. Python imports this module at its start.
"""

import os

if "PYBROKER_DEFECT" in os.environ:
    from proofs.defects import plant

    plant(os.environ["PYBROKER_DEFECT"])
