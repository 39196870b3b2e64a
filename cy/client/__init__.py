"""What a client's connection and its loop need: responses in order, the lease of a loop, held signals, a lock.

Start with ``connection``. ``loop_lease`` says which thread acts in a loop, ``held_signals`` lets a thread do a loop's
work in peace, ``signal_safe_lock`` guards what a loop and the application share. It may import all of ``cy``; only
``pyclient`` uses it.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
