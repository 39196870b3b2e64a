"""What a client's connection and its loop need: responses in order, the lease of a loop, held signals."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
