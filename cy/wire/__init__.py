"""The protocol's bytes: messages to frames and back, frames over sockets, files by ``sendfile``.

Start with ``codec`` (a message and its bytes, by a ``plan``) and ``frames`` (a socket's bytes as frames). Every byte is
read through ``buffer``, which checks the bounds. Broker and client share it. It imports only modules that lie directly
in ``cy``.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
