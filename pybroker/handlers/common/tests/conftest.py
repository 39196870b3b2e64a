"""A broker for each test that asks for one."""

from pybroker.handlers.tests.conftest import make_node, node  # noqa: F401
