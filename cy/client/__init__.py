"""What a client's connection and its loop need: responses in order, the lease of a loop, held signals, a lock.

Start with ``connection``. ``loop_lease`` decides which thread acts for a loop. ``held_signals`` lets a thread do a
loop's work without interruption by signals. ``signal_safe_lock`` guards what a loop and the application share. This
room may import all of ``cy``; only ``pyclient`` uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
