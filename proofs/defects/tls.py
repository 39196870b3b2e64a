"""Defects that reveal connections, or the keys to them."""

from __future__ import annotations

import ssl

from proofs.defects import Patch, defect
from pyclient.config.key import Password
from pyclient.security import contexts
from pyclient.security.stores import TrustStore

CONTEXTS = "pyclient/security/tests/test_contexts.py"


@defect(f"{CONTEXTS}::test_the_host_name_is_verified_unless_that_is_disabled")
def a_client_takes_the_certificate_of_any_host() -> list[Patch]:
    """Every holder of a certificate from the authority may pose as every broker."""
    trust = contexts._trust

    def loose(context: ssl.SSLContext, store: TrustStore) -> None:
        trust(context, store)
        context.check_hostname = False

    return [(contexts, "_trust", loose)]


@defect(f"{CONTEXTS}::test_a_certificate_of_another_authority_is_refused")
def a_client_takes_the_certificate_of_any_authority() -> list[Patch]:
    """The client encrypts, but for any server."""

    def nobody(context: ssl.SSLContext, store: TrustStore) -> None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE

    return [(contexts, "_trust", nobody)]


@defect("pyclient/config/tests/test_config.py::test_repr_of_settings_hides_passwords")
def settings_are_shown_with_their_passwords() -> list[Patch]:
    """The settings show passwords like any other string."""
    return [(Password, "__repr__", str.__repr__)]
