"""Makes a broker's loop hang from outside: Python imports this file at start if PYTHONPATH has its folder.

The main thread, which runs the loop, handles SIGUSR2; all other threads continue, kazoo's too. SIGSTOP is a different
fault: it stops every thread of the broker.
"""

import os
import signal
import time

if "CONFORMANCE_HANG_S" in os.environ:
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(float(os.environ["CONFORMANCE_HANG_S"])))
