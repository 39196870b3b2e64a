"""Makes a broker's loop hang from outside: Python imports this file at start if PYTHONPATH has its folder.

SIGUSR2 is handled on the main thread, which is the loop's; all other threads go on, that of kazoo too. A broker that is
stopped by SIGSTOP is another case: then nothing of it runs.
"""

import os
import signal
import time

if "CONFORMANCE_HANG_S" in os.environ:
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(float(os.environ["CONFORMANCE_HANG_S"])))
