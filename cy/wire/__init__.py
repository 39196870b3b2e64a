"""The protocol's bytes: messages to frames and back, frames over sockets, files by ``sendfile``."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
