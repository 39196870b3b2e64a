"""Finds sentences that are hard to read: ``python -m docs.words [PATH…]``, without a path all of the project.

It reads pages, docstrings, comments, messages (errors, log lines, help) and names of tests. It refuses

* a sentence of more than 30 words, outside tables and code;
* the words and the forms of ``FORBIDDEN``;
* a page of more than 2,000 words of prose.

A word in backquotes counts as one, and is never refused.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST_SENTENCE = 30
LONGEST_PAGE = 2000
TEST = "test_"
SHORTEST_MESSAGE = 4
"""A string constant of fewer words is no sentence."""
GENERATED = "docs/api/"
"""Made of docstrings, which are read where they stand."""
QUOTED = ("Some data may have been lost because",)
"""Beginnings of messages that are another project's, word for word."""
LISTS = ("CHANGELOG.md",)
"""Pages that nobody reads from the top to the end: their sentences count, their length does not."""
FORBIDDEN = {
    r"\b(?:who|whom|whoso)ever\b": "name the one who acts",
    r"\banew\b": "again",
    r"\bbe it\b": "whether",
    r"\bno more\b(?=\s*(?:$|[.,;:!?)]|(?:of|to|from|in|and|but|if|when|until|by|as)\b))": "no longer",
    r"\bsuch (?!as\b)(?:[a-z]+ ){0,3}that\b": "so … that, or a sentence of its own",
    r"(?:^|[.;] )who (?![^.]*\?)": "a noun before 'who'",
    r"\b(?:for|to|by|with|than|if|when|as) who (?:is|has|was|had|does|can|may|comes?|leads?|waits?|reads?|asks?)\b": (
        "a noun before 'who'"
    ),
    r"\b(?:thereof|whereof|hereby|therewith|thereby|therein|wherein)\b": "a pronoun",
    r"\bput out of (?:the|its|his|their) group\b": "evicted from",
}
PATTERNS = {re.compile(pattern, re.IGNORECASE): better for pattern, better in FORBIDDEN.items()}
CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
LOWER_CASE_NAMES = r"pybroker|pyclient|librdkafka|kcat|kazoo|aiokafka|gzip|confluent|kafka-python|tox|[a-z_]+\.py"
SENTENCE_END = re.compile(rf"(?<=[.!?])[\"'”)*_]*\s+(?=[\"'“(*_\[]?(?:[A-Z0-9…]|{LOWER_CASE_NAMES}))|(?<=:)\s*\n")
WORD = re.compile(r"[^\s–—=+*/|&<>→-]*\w[^\s]*")
ITEM = re.compile(r"\s*(?:[-*•] |\d+\. |#+ |>|\||[A-Za-z][\w.,* ]{0,30}: )|.*\S {2,}\S|pybroker \w+ .*[-<|]")
"""Begins a text of its own: an item of a list, a heading, a row of columns, a command, ``ValueError: …``."""


class Text(NamedTuple):
    """A text without line breaks inside its parts, and where it begins."""

    path: Path
    line: int
    kind: str
    text: str


class Fault(NamedTuple):
    """What is wrong, and where."""

    path: Path
    line: int
    kind: str
    fault: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.fault}"


def faults(text: Text) -> Iterator[Fault]:
    """What a reader would stumble over."""
    if text.text.startswith(QUOTED):
        return
    for paragraph in paragraphs(text.text):
        for sentence in SENTENCE_END.split(LINK.sub(r"\1", CODE.sub("X", paragraph))):
            words = len(WORD.findall(sentence))
            if words > LONGEST_SENTENCE:
                yield Fault(*text[:3], f"{words} words in a sentence: {shortened(sentence)}")
            for pattern, better in PATTERNS.items():
                if found := pattern.search(" ".join(sentence.split())):
                    yield Fault(*text[:3], f"'{found[0].strip()}', better {better}: {shortened(sentence)}")


def shortened(sentence: str) -> str:
    """The beginning of a sentence, in one line."""
    line = " ".join(sentence.split())
    return line if len(line) <= 100 else f"{line[:99]}…"


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and items of lists. Code and tables are left out."""
    gathered: list[str] = []
    for line in text.splitlines():
        if not line.strip() or ITEM.match(line):
            if gathered:
                yield "\n".join(gathered)
            gathered = []
        if line.strip() and not line.lstrip().startswith(("|", ">>>")):
            gathered.append(line)
    if gathered:
        yield "\n".join(gathered)


def of_page(path: Path) -> Iterator[Text]:
    """The prose of a page of Markdown, block by block."""
    lines = path.read_text(encoding="utf-8").splitlines()
    inside = False
    block: list[str] = []
    begun = 1
    for number, line in enumerate([*lines, ""], 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        if inside or not line.strip() or line.lstrip().startswith(("```", "|", "<!--", "![")):
            if block:
                yield Text(path, begun, "page", "\n".join(block))
            block = []
            continue
        if not block:
            begun = number
        block.append(line)


def of_module(path: Path) -> Iterator[Text]:
    """Docstrings, messages, comments and the names of tests of a module of Python."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    is_test = "tests" in path.parts or path.name == "conftest.py"
    read: set[int] = set()
    for node in ast.walk(tree):  # from the outside to the inside: a docstring comes after its statement
        if id(node) in read:
            continue
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                read.add(id(constant))
                yield Text(path, node.lineno, "docstring", prose(text, node.col_offset))
            case ast.JoinedStr():
                read |= {id(each) for each in ast.walk(node)}
                if not is_test:
                    yield from message(path, node.lineno, "".join(map(piece, node.values)))
            case ast.Constant(value=str(text)) if not is_test:
                yield from message(path, node.lineno, text)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith(TEST):
                yield Text(path, node.lineno, "name of a test", node.name.removeprefix(TEST).replace("_", " "))
    yield from comments(path, source)


def piece(value: ast.expr) -> str:
    """A piece of an f-string; what is put in counts as a word."""
    return str(value.value) if isinstance(value, ast.Constant) else "X"


def message(path: Path, line: int, text: str) -> Iterator[Text]:
    """A string constant, if it is words and no program."""
    words = text.split()
    if len(words) >= SHORTEST_MESSAGE and not re.search(r"^\s*(?:import|from|def|SELECT|CREATE|#!)|;\n|\{\n", text):
        yield Text(path, line, "message", text)


def of_cython(path: Path) -> Iterator[Text]:
    """Docstrings and comments of a module of Cython."""
    source = path.read_text(encoding="utf-8")
    for found in re.finditer(r'^([ \t]*)"""(.*?)"""', source, re.MULTILINE | re.DOTALL):
        if "{\n" not in found[2] and "#include" not in found[2]:  # no text of C
            yield Text(path, source.count("\n", 0, found.start()) + 1, "docstring", prose(found[2], len(found[1])))
    yield from comments(path, source)


def prose(docstring: str, margin: int) -> str:
    """A docstring without its blocks of code, which are set in. ``margin``: where its first line begins."""
    lines = docstring.splitlines()
    lines = [*lines[:1], *(line[margin:] for line in lines[1:])]
    kept = []
    was_blank = was_code = False
    for line in lines:
        is_code = line.startswith("    ") and (was_blank or was_code) and line.strip() != ""
        kept.append("" if is_code else line)
        was_code = is_code or (was_code and not line.strip())
        was_blank = not line.strip()
    return "\n".join(kept)


def comments(path: Path, source: str) -> Iterator[Text]:
    """Comments; lines that follow each other are one."""
    if "#" not in source:
        return
    block: list[str] = []
    begun = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = not token.line[: token.start[1]].strip()
        if block and not (alone and token.start[0] == last + 1):
            yield Text(path, begun, "comment", "\n".join(block))
            block = []
        if not block:
            begun = token.start[0]
        last = token.start[0] if alone else 0
        text = token.string.lstrip("#:").strip()
        if not re.match(r"(?:noqa|type:|pragma|cython:|cdef |!)", text):
            block.append(text)
    if block:
        yield Text(path, begun, "comment", "\n".join(block))


def of_file(path: Path) -> Iterator[Text]:
    """The texts of a file of any kind."""
    if path.suffix == ".md":
        yield from of_page(path)
    elif path.suffix in (".py", ".pyi"):
        yield from of_module(path)
    elif path.suffix in (".pyx", ".pxd"):
        yield from of_cython(path)


def tracked(folders: Sequence[str] = ()) -> list[Path]:
    """The files that git has, or would take."""
    told = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    names = [name for name in told.stdout.splitlines() if not name.startswith(GENERATED)]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def found_in(path: Path) -> Iterator[Fault]:
    """What is wrong in a file."""
    texts = list(of_file(path))
    for text in texts:
        yield from faults(text)
    words = sum(len(WORD.findall(text.text)) for text in texts)
    if path.suffix == ".md" and path.name not in LISTS and words > LONGEST_PAGE:
        yield Fault(path, 1, "page", f"{words:,} words of prose, more than {LONGEST_PAGE:,}")


def main() -> int:
    """The command."""
    found = [fault for path in tracked(sys.argv[1:]) for fault in found_in(path)]
    for fault in found:
        print(fault._replace(path=fault.path.relative_to(ROOT)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
