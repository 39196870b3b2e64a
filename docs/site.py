"""Builds the documentation site, strictly: ``python -m docs.site OUT [--releases]``.

``OUT/dev`` is this checkout. With ``--releases`` each tag ``v*`` has a folder of its own beside it, as its own
``docs`` describe it. ``OUT/index.html`` leads to the newest release, or to ``dev`` where there is none.
A warning is an error: a link that leads nowhere, a page that no menu lists.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEV = "dev"
LEAD = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={0}/">
<a href="{0}/">pybroker</a>
"""


def releases() -> list[str]:
    """The release tags of this repository, the newest first."""
    tags = git("tag", "--list", "v*", "--sort=-version:refname").decode()
    return tags.split()


def git(*arguments: str) -> bytes:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def build(docs: Path, out: Path, versions: list[str]) -> None:
    """One version of the site; each page names all ``versions``. Raises CalledProcessError where a page is wrong."""
    strict = ["-W", "--keep-going", "-q", "-E"]
    command = [sys.executable, "-m", "sphinx", *strict, "-d", f"{out}.doctrees", "-A", f"versions={','.join(versions)}"]
    subprocess.run([*command, str(docs), str(out)], check=True)


def build_release(tag: str, out: Path, versions: list[str]) -> None:
    """The site as it was at a tag."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(git("archive", tag))) as archive:
            archive.extractall(folder, filter="data")
        build(Path(folder) / "docs", out / tag, versions)


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--releases", action="store_true", help="build the release tags too")
    chosen = options.parse_args()
    tags = releases() if chosen.releases else []
    versions = [DEV, *tags]
    build(ROOT / "docs", chosen.out / DEV, versions)
    for tag in tags:
        build_release(tag, chosen.out, versions)
    newest = tags[0] if tags else DEV
    (chosen.out / "index.html").write_text(LEAD.format(newest), encoding="utf-8")
    print(f"built: {chosen.out / 'index.html'}")


if __name__ == "__main__":
    main()
