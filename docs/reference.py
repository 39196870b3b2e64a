"""The API reference, ``docs/api``, made of signatures and docstrings: ``python -m docs.reference``.

Sources and stubs are read by griffe, not imported; settings and errors are tables of the code already
(``reference_tables``). A docstring is prose, its ``code`` becomes `code`, and what is set in is a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import griffe

from docs.reference_tables import MADE, errors_text, prose, settings_text, without_effect_text

ROOT = Path(__file__).parents[1]
API = ROOT / "docs" / "api"
LINE_LENGTH = 100
ALIASES = (
    "pyclient.consumer.api.Topics",
    "pyclient.consumer.api.Offsets",
    "pyclient.consumer.offsets.commits.OnCommit",
)
"""Types that signatures name: what they stand for is shown instead."""
STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}

PLUMBING = {"send_later", "admit", "shut", "put", "checked", "abandon"}
"""Public for other modules only, as is what the queues below a producer have besides ``send``."""
QUEUES = ("cy.produce.record_queues.RecordQueues", "cy.produce.shared_queues.SharedQueues")


class Page(NamedTuple):
    """A page: its file, its title, its first text, and the objects that it shows."""

    file: str
    title: str
    text: str
    names: tuple[str, ...]


PAGES = (
    Page(
        "producer",
        "Producer",
        "`from pyclient import Producer`. [Settings](settings.md#producer) are keywords.",
        (
            "pyclient.producer.blocking.Producer",
            "cy.produce.producer_batch.DeliveryReport",
            "cy.produce.producer_batch.RecordMetadata",
            "cy.produce.deliveries.Deliveries",
        ),
    ),
    Page(
        "consumer",
        "Consumer",
        "`from pyclient import Consumer`. [Settings](settings.md#consumer) are keywords.",
        (
            "pyclient.consumer.blocking.Consumer",
            "cy.consume.records.Record",
            "cy.consume.records.Records",
            "pyclient.consumer.types.RebalanceListener",
            "pyclient.topic_partition.TopicPartition",
            "pyclient.offset_and_metadata.OffsetAndMetadata",
            "pyclient.consumer.types.OffsetAndTimestamp",
            "pyclient.consumer.types.GroupMetadata",
            "pyclient.core.cluster.PartitionInfo",
        ),
    ),
    Page(
        "admin",
        "Admin",
        "`from pyclient import Admin`; the types are in `pyclient.admin`. The methods are those of "
        "`pyclient.aio.Admin`, but not coroutines. [Settings](settings.md#admin) are keywords.",
        (
            "pyclient.admin.asynchronous.Admin",
            "pyclient.admin.results.Results",
            "pyclient.admin.types",
            "pyclient.admin.security_types",
            "pyclient.protocol.acls",
        ),
    ),
    Page(
        "aio",
        "asyncio",
        "`from pyclient import aio`: the same names as `pyclient`, on the running loop. `aio.Admin` has the methods of "
        "[Admin](admin.md) as coroutines.",
        ("pyclient.producer.asynchronous.Producer", "pyclient.consumer.asynchronous.Consumer"),
    ),
    Page(
        "serialization",
        "Serializers",
        "`pyclient.serialization`: ready-made values for `key_serializer`, `value_serializer`, `key_deserializer` and "
        "`value_deserializer`. Your own functions work as well.",
        ("pyclient.serialization",),
    ),
    Page(
        "broker",
        "A broker for tests and notebooks",
        "`import pybroker`.",
        ("embedded.run", "embedded.EmbeddedBroker", "embedded.BrokerFailed", "acl.Acl"),
    ),
)


@cache
def sources() -> griffe.ModulesCollection:
    """The packages, parsed."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], allow_inspection=False)
    for package in ("cy", "pyclient"):
        loader.load(package)
    for name in ("embedded", "acl"):
        path = ROOT / "pybroker" / f"{name}.py"
        loader.modules_collection.set_member(name, griffe.visit(name, path, path.read_text(encoding="utf-8")))
    return loader.modules_collection


def page_text(page: Page, modules: griffe.ModulesCollection) -> str:
    """A page as Markdown."""
    parts = [f"# {page.title}\n", page.text + "\n"]
    for name in page.names:
        found = modules[name]
        shown = public(found) if found.is_module else [found]
        parts += [entry(each) for each in shown]
    return "\n".join(parts) + MADE


def public(module: griffe.Object | griffe.Alias) -> Iterator[griffe.Object | griffe.Alias]:
    """The classes and functions that a module defines and documents, in its order."""
    for member in sorted(module.members.values(), key=lambda each: each.lineno or 0 if not each.is_alias else 0):
        if not member.is_alias and (member.is_class or member.is_function) and is_shown(member):
            yield member


def is_shown(member: griffe.Object | griffe.Alias) -> bool:
    """Whether it is public and has something to say; of the queues below the producer only ``send`` is."""
    if member.name.startswith("_") or member.name in PLUMBING or member.docstring is None:
        return False
    return not member.canonical_path.startswith(QUEUES) or member.name == "send"


def entry(found: griffe.Object | griffe.Alias) -> str:
    """A class with its members, or a function."""
    if found.is_function:
        return function_text(found, "##")
    head = f"## {found.name}\n\n{class_line(found)}\n{text_of(found)}"
    members = list(members_of(found))
    fields = [field_text(each) for each in members if each.is_attribute and is_field(each)]
    methods = [function_text(each, "###") for each in members if each.is_function and is_shown(each)]
    return "\n".join([head, *([("".join(fields))] if fields else []), *methods])


def members_of(found: griffe.Object | griffe.Alias) -> Iterator[griffe.Object | griffe.Alias]:
    """Its public members in the order of the source, its own before inherited ones; first of all ``send``."""
    seen: dict[str, griffe.Object | griffe.Alias] = {}
    for owner in [found, *found.mro()]:  # type: ignore[union-attr]
        own = {name: each for name, each in owner.members.items() if not name.startswith("_") and not each.is_alias}
        seen = own | seen if owner.canonical_path in QUEUES else seen | {k: v for k, v in own.items() if k not in seen}
    return (member for member in seen.values() if not member.canonical_path.startswith(QUEUES) or is_shown(member))


def is_field(attribute: griffe.Object | griffe.Alias) -> bool:
    """Whether it is meant to be read: documented, declared in a class, or a member of an enumeration."""
    bases = {str(base) for base in getattr(attribute.parent, "bases", ())}
    declared = getattr(attribute, "annotation", None) is not None and "instance-attribute" not in attribute.labels
    return attribute.docstring is not None or declared or bool(bases & {"Enum", "IntEnum"})


def class_line(found: griffe.Object | griffe.Alias) -> str:
    """The class with its constructor, as code; for a class that users do not create, only its bases."""
    bases = ", ".join(str(base) for base in getattr(found, "bases", ()) if str(base) not in ("NamedTuple", "Protocol"))
    made = found.all_members.get("__init__")
    if made is not None and made.is_function and found.canonical_path.startswith(("pyclient.", "acl.")):
        return code(signature(made, found.name))
    return code(f"class {found.name}({bases})" if bases else f"class {found.name}")


def function_text(function: griffe.Object | griffe.Alias, mark: str) -> str:
    """A function or method with its signature."""
    return f"{mark} {function.name}\n\n{code(signature(function, function.name))}\n{text_of(function)}"


def field_text(field: griffe.Object | griffe.Alias) -> str:
    """An attribute in a line of a list."""
    kind = getattr(field, "annotation", None)
    value = getattr(field, "value", None)
    shown = f"{field.name}: {kind}" if kind is not None else f"{field.name} = {value}" if value else field.name
    text = " ".join(text_of(field).split())
    return f"- `{shown}`{' – ' + text if text else ''}\n"


def signature(function: griffe.Object | griffe.Alias, name: str) -> str:
    """With annotations; in one line, or with a parameter on each."""
    parameters = list(written(function.parameters))  # type: ignore[union-attr]
    returns = "" if function.name == "__init__" else f" -> {function.returns}"  # type: ignore[union-attr]
    awaited = "async " if "async" in function.labels else ""
    line = spelled_out(f"{awaited}{name}({', '.join(parameters)}){returns}")
    if len(line) <= LINE_LENGTH:
        return line
    return spelled_out(f"{awaited}{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){returns}")


def spelled_out(text: str) -> str:
    """With what the names of types stand for."""
    for path in ALIASES:
        text = re.sub(rf"(?<![\w.]){path.rpartition('.')[2]}\b", str(sources()[path].value), text)
    return text


def written(parameters: Iterable[griffe.Parameter]) -> Iterator[str]:
    """Each parameter as it is written, and the ``*`` before those that are keywords."""
    after_star = False
    for each in parameters:
        if each.name in ("self", "cls"):
            continue
        stars = STARS.get(each.kind or griffe.ParameterKind.positional_only, "")
        if each.kind is griffe.ParameterKind.keyword_only and not after_star:
            yield "*"
        after_star = after_star or stars == "*" or each.kind is griffe.ParameterKind.keyword_only
        kind = "" if each.annotation is None else f": {each.annotation}"
        default = "" if each.default is None or stars else f" = {each.default}" if kind else f"={each.default}"
        yield f"{stars}{each.name}{kind}{default}"


def text_of(found: griffe.Object | griffe.Alias) -> str:
    """Its docstring as Markdown."""
    doc = found.docstring
    if doc is None:
        return ""
    assert doc.lineno is not None
    assert isinstance(found.filepath, Path)
    lines = source(found.filepath)[doc.lineno - 1 : doc.endlineno]
    margin = len(lines[0]) - len(lines[0].lstrip())
    first, *rest = doc.value.strip().splitlines()
    return prose([first, *(line[margin:] for line in lines[1 : 1 + len(rest)])]) + "\n"


@cache
def source(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def index_text() -> str:
    """The page that leads to the others."""
    pages = [(page.file, page.title, page.text) for page in PAGES]
    pages.insert(3, ("settings", "Settings", "every key with its default and meaning."))
    pages.insert(4, ("errors", "Errors", "`from pyclient import KafkaError`; `pyclient.errors` has all errors."))
    said = "settings of a `server.properties` that pybroker ignores."
    pages.append(("without-effect", "Broker settings without effect", said))
    plain = [(file, title, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)) for file, title, text in pages]
    lines = [f"- [{title}]({file}.md): {text}" for file, title, text in plain]
    return "# API reference\n\n" + "\n".join(lines) + "\n" + MADE


def reference() -> dict[str, str]:
    """All pages by file name."""
    made = {f"{page.file}.md": page_text(page, sources()) for page in PAGES}
    tables = {"settings.md": settings_text(), "errors.md": errors_text(), "without-effect.md": without_effect_text()}
    return made | tables | {"index.md": index_text()}


if __name__ == "__main__":
    API.mkdir(exist_ok=True)
    for name, text in reference().items():
        (API / name).write_text(text, encoding="utf-8")
