"""Pages of the site that `make docs` builds, as hooks of MkDocs.

The pages of docs/ are as a forge shows them. The site adds README, its home, the changelog, an
index of decisions, and the API reference: a page a module, with the public names of that module.
"""

from __future__ import annotations

import inspect
import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import penstock
from penstock import errors, spark_bridge, workers

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Warnings of this logger fail the build, too.
LOG = logging.getLogger("mkdocs.hooks.pages")

#: Pages of the site that are no files of docs, or have another name there.
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "read.md",
    "docs/decisions": "decisions/index.md",
    "CHANGELOG.md": "changelog.md",
}
ORIGINS = {page: origin for origin, page in MOVED.items()}
#: Files of the site, and where they are. What comes from npm is put there by scripts/site/fetch.sh.
FETCHED = Path(sys.prefix) / "share" / "site"
MERMAID = "assets/mermaid.js"
ASSETS = {
    MERMAID: FETCHED / "mermaid.js",
    "assets/iframe-worker.js": FETCHED / "iframe-worker.js",
    "assets/site.css": Path(__file__).with_name("site.css"),
}

#: Members of which the reference shows these: the others are Penstock's own.
MEMBERS = {
    "penstock.spark_bridge.streaming.join.StreamingJoin": "writeStream, explain, remaining, schema",
    "penstock.host.execute.stats.Stats": "as_dict",
    "penstock.host.execute.trace.Trace": "spans, write",
}

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
_TITLE = re.compile(r"^# (.*)$", re.M)
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
_HEADING = re.compile(r"^#+ ", re.M)
#: Code in a text: nothing in it is a link.
_CODE = re.compile(r"(`[^`]*`)")


def api() -> dict[str, tuple[str, list[str]]]:
    """Pages of the API reference: a title, and the names that are documented there."""

    def public(module: Any) -> list[str]:
        names = [name for name in module.__all__ if name[0] != "_"]
        # What one calls comes first.
        names.sort(key=lambda name: isinstance(getattr(module, name), type))
        return [f"{module.__name__}.{name}" for name in names]

    raised = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, penstock.PenstockError)
    ]
    metrics = "penstock.host.metrics.report"
    return {
        "api/penstock.md": (
            "penstock",
            [name for name in public(penstock) if name != "penstock.workers"],
        ),
        "api/workers.md": ("penstock.workers", public(workers)),
        "api/spark_bridge.md": (
            "penstock.spark_bridge",
            [
                *public(spark_bridge),
                "penstock.spark_bridge.streaming.join.StreamingJoin",
                "penstock.spark_bridge.streaming.join_writer.JoinWriter",
                "penstock.spark_bridge.metrics.listener.JoinListener",
            ],
        ),
        "api/results.md": (
            "What calls return",
            [
                "penstock.host.page.page.Page",
                f"{metrics}.Report",
                f"{metrics}.LaneReport",
                f"{metrics}.ClockReport",
                "penstock.host.metrics.findings.Finding",
                "penstock.host.metrics.findings.of_report",
                "penstock.host.execute.stats.Stats",
                "penstock.host.execute.trace.Trace",
                "penstock.host.workers.results.Polled",
                "penstock.host.metrics.exporter.MetricsServer",
            ],
        ),
        "api/errors.md": ("penstock.errors", [f"penstock.errors.{name}" for name in raised]),
    }


def written(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def decisions() -> str:
    """Markdown of the list of decisions, the newest first."""
    lines = ["# Decisions", "", "Choices that could have been made otherwise, and why they were."]
    for path in sorted((DOCS / "decisions").glob("*.md"), reverse=True):
        title = _TITLE.search(path.read_text(encoding="utf-8"))
        assert title is not None, path
        lines.append(f"- {int(path.name[:4])}: [{title[1]}]({path.name})")
    return "\n".join([*lines[:3], "", *lines[3:], ""])


def site_page(origin: str) -> str | None:
    """The site's page of a file or folder of the repository; None if it has none."""
    if origin in MOVED:
        return MOVED[origin]
    if origin.startswith("docs/") and (ROOT / origin).is_file():
        return origin.removeprefix("docs/")
    return None


def relinked(page: str, text: str) -> str:
    """Make the links of a page lead to pages of the site.

    What the site does not have is named by its path in the repository instead.
    """
    origin_of_page = ORIGINS.get(page, f"docs/{page}")
    is_folder = (ROOT / origin_of_page).is_dir()
    folder = origin_of_page if is_folder else posixpath.dirname(origin_of_page)

    def link(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if re.match(r"\w+:|#", target):
            return match[0]
        path, mark, anchor = target.partition("#")
        origin = posixpath.normpath(posixpath.join(folder, path))
        if (to := site_page(origin)) is not None:
            to = posixpath.relpath(to, posixpath.dirname(page) or ".")
            return f"{image}[{words}]({to}{mark}{anchor})"
        if not (ROOT / origin).exists():
            LOG.warning("%s links to %s, which is not there", page, target)
        return f"`{origin}`" if words == origin else f"{words} (`{origin}`)"

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def order() -> list[str]:
    """The pages of docs in the order in which indexes, docs/README.md first, link to them."""
    pages = ["README.md"]
    for index in pages:
        if posixpath.basename(index) == "README.md":
            for match in _LINK.finditer(written(f"docs/{index}")):
                path = posixpath.join(posixpath.dirname(index), match[3].partition("#")[0])
                page = posixpath.normpath(path)
                if page.endswith(".md") and page[0] != "." and page not in pages:
                    pages.append(page)
    return pages[1:]


def on_config(config: MkDocsConfig) -> None:
    folders: dict[str, list[Any]] = {}
    for page in order():
        folders.setdefault(posixpath.dirname(page), []).append(page)
    rest = folders.pop("", [])
    rest.remove("architecture.md")
    folders["inside"].insert(0, "architecture.md")
    sections = [{name.capitalize(): pages} for name, pages in folders.items()]
    files = sorted((DOCS / "decisions").glob("*.md"))
    decided = ["decisions/index.md", *(f"decisions/{path.name}" for path in files)]
    config.nav = [
        {"Penstock": ["index.md", {"Where to read": "read.md"}]},
        *sections,
        {"API": [{title: page} for page, (title, _) in api().items()]},
        {"More": [*rest, {"Changes": "changelog.md"}, {"Decisions": decided}]},
    ]


def options(name: str) -> str:
    """Options of mkdocstrings for a name."""
    return f"    options:\n      members: [{MEMBERS[name]}]" if name in MEMBERS else ""


def introduction(module: Any) -> str:
    """Markdown of a package's docstring: what it is, and the names that its examples use."""
    summary, _, rest = (inspect.getdoc(module) or "").partition("\n\nExamples\n--------\n")
    text, _, code = rest.partition("\n\n")
    summary = _PAGE.sub(r"[\g<0>](../\1.md)", summary)
    return f"{summary}\n\n{text}\n\n```pycon\n{code}\n```\n"


def on_files(files: Files, config: MkDocsConfig) -> None:
    readme = files.get_file_from_path("README.md")
    assert readme is not None
    files.remove(readme)
    texts = {page: written(o) for o, page in MOVED.items() if o.endswith(".md")}
    texts["decisions/index.md"] = decisions()
    for page, (title, names) in api().items():
        shown = [f"::: {name}\n{options(name)}" for name in names]
        if title in ("penstock", "penstock.spark_bridge"):
            shown.insert(0, introduction(sys.modules[title]))
        texts[page] = "\n\n".join([f"# {title}", *shown, ""])
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    for asset, path in ASSETS.items():
        files.append(File.generated(config, asset, abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    # Who searches wants to know how it is, before why and since when.
    if page.file.src_uri.startswith(("decisions/", "changelog")):
        page.meta["search"] = {"boost": 0.2}
    return under_one_title(relinked(page.file.src_uri, markdown))


def under_one_title(text: str) -> str:
    """Make the headings below the first one a level smaller, if there are several titles."""
    parts = _FENCE.split(text)
    if sum(len(_TITLE.findall(part)) for part in parts[::2]) > 1:
        parts[::2] = [_HEADING.sub(r"#\g<0>", part) for part in parts[::2]]
        parts[0] = parts[0].replace("##", "#", 1)
    return "".join(parts)


def on_page_content(html: str, page: Page, **_: object) -> None:
    """Warn of lists that a forge shows and MkDocs does not: it wants an empty line before them."""
    if page.file.src_uri.startswith("api/"):
        return
    forge = MarkdownIt("commonmark").enable("table").render(page.markdown or "")
    if forge.count("<li>") != len(re.findall("<li>(?!<a class=.headerlink)", html)):
        LOG.warning("%s has a list without an empty line before it", page.file.src_uri)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Load what draws diagrams where there are some."""
    if 'class="mermaid"' not in output:
        return output
    base = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{base}"></script></head>', 1)
