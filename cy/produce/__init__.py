"""The SDK's way out: a record goes into a queue, a batch and a request, and its metadata come back."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
