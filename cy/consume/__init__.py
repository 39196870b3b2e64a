"""The SDK's way in: fetched batches become records, columns of Arrow, or lines of JSON."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
