"""Sphinx extension: every page lives with no kernel and no network.

- The front-end libraries lie in a folder that is copied into the site; a page loads those that it needs.
- Charts go into the page as Vega-Lite JSON; a chart without alternative text is a warning, so it fails the build.
- What the theme brings and the book does not use (thebe, 1.5 MB of icons as JavaScript) is taken out.
- A page that asks for anything outside the site fails the build.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from myst_nb.core import render
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

logger = logging.getLogger(__name__)

STATIC = Path(__file__).resolve().parent.parent / "_build" / "static"
VEGA_FILES = ("vega.js", "vega-lite.js", "vega-embed.js", "charts.js")
VEGA_LITE = re.compile(r"application/vnd\.vegalite\.v\d+\+json")
UNUSED = re.compile(
    r"<(?:script|link)\b[^>]*fontawesome\.js[^>]*>(?:</script>)?"
    r"|<script type=\"text/x-thebe-config\">.*?</script>"
    r"|<script>kernelName = [^<]*</script>",
    re.DOTALL,
)
# Elements that the browser fetches by itself; a link that the reader follows is none of them.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|audio|video|embed)\b[^>]*?\bsrc=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|icon|preconnect|dns-prefetch))"
    r"[^>]*?\bhref=[\"']?(?:https?:)?//[^\"'\s>]+"
)


class VegaLite:
    """Puts a chart into the page as JSON, and the files that draw it onto that page alone."""

    mime_priority_overrides: ClassVar = [("html", f"application/vnd.vegalite.v{number}+json", 1) for number in (5, 6)]

    @staticmethod
    def handle_mime(renderer, data, inline):
        if inline or not VEGA_LITE.fullmatch(data.mime_type):
            return None
        spec = json.loads(data.content) if isinstance(data.content, str) else data.content
        text = spec.get("description")
        if not text:
            where = f"{renderer.renderer.document['source']}:{data.line}"
            logger.warning("a chart has no alternative text: give it .properties(description=...)", location=where)
        for name in VEGA_FILES:
            renderer.add_js_file(f"vega_{name}", f"vendor/{name}", {})
        body = json.dumps(spec, sort_keys=True).replace("</", "<\\/")
        chart = (
            f'<div class="chart"><script type="application/vnd.vegalite+json">{body}</script>'
            f'<div class="chart-target"></div><noscript><p>{html.escape(text or "")}</p></noscript></div>'
        )
        return [nodes.raw("", chart, format="html")]


def add_static_folder(app: Sphinx, config) -> None:
    """Let Sphinx copy the front-end libraries: late, since Jupyter Book loads every script of earlier folders."""
    config.html_static_path.append(str(STATIC))


def drop_scripts(app: Sphinx, page: str, template: str, context: dict, doctree) -> None:
    """Take out thebe's scripts, which ask a network for a kernel, and MathJax where there is no formula."""
    unwanted = ["thebe"] if 'class="math' in (context.get("body") or "") else ["thebe", "mathjax"]
    scripts = context.get("script_files", [])
    context["script_files"] = [one for one in scripts if not any(word in describe(one) for word in unwanted)]


def search_from_disk(app: Sphinx, page: str, template: str, context: dict, doctree) -> None:
    """From the disk, search without excerpts: a browser lets no script read the pages that they come from."""
    if page == "search":
        body = "if (location.protocol === 'file:') DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;"
        app.add_js_file(None, body=body)


def describe(script) -> str:
    """A script's address and body, in lower case."""
    body = getattr(script, "attributes", {}).get("body") or ""
    return f"{getattr(script, 'filename', script)} {body}".lower()


def finish_pages(app: Sphinx, exception: Exception | None) -> None:
    """Take what is not used out of each page, and check that no page asks for anything outside.

    Raises:
        ExtensionError: a page would fetch something from a network; the message names page and address.
    """
    if exception is not None or app.builder.format != "html":
        return
    outside = []
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        clean = UNUSED.sub("", text)
        if clean != text:
            path.write_text(clean, encoding="utf-8")
        outside += [f"{path.relative_to(app.outdir)}: {found}" for found in FETCHED.findall(clean)]
    if outside:
        raise ExtensionError("pages that ask for something outside the book:\n" + "\n".join(sorted(set(outside))))


def setup(app: Sphinx) -> dict:
    # myst-nb finds such renderers among the entry points of installed packages only; this one belongs to the book.
    render.load_mime_renders = lambda: [VegaLite]
    app.connect("config-inited", add_static_folder)
    app.connect("html-page-context", search_from_disk)
    app.connect("html-page-context", drop_scripts, priority=950)
    app.connect("build-finished", finish_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
