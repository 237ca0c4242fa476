"""Copies the front-end libraries of the pages from `node_modules` and from wheels into a folder below `_build`.

Sphinx copies that folder into the site. Nothing of it is committed, and nothing of it is asked from a network.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import anywidget

from tools.keys import ROOT

NODE_MODULES = ROOT / "node_modules"
FRONT = ROOT / "_ext" / "front"
VENDOR = ROOT / "_build" / "static" / "vendor"
WIDGETS = NODE_MODULES / "@jupyter-widgets" / "html-manager" / "dist"
MATHJAX = NODE_MODULES / "mathjax" / "es5"


def files() -> dict[str, Path]:
    """What lies where: the path below `vendor`, and the file that is copied there."""
    single = {
        "require.js": NODE_MODULES / "requirejs" / "require.js",
        "embed-amd.js": WIDGETS / "embed-amd.js",
        "anywidget.js": Path(anywidget.__file__).parent / "nbextension" / "index.js",
        "vega.js": NODE_MODULES / "vega" / "build" / "vega.min.js",
        "vega-lite.js": NODE_MODULES / "vega-lite" / "build" / "vega-lite.min.js",
        "vega-embed.js": NODE_MODULES / "vega-embed" / "build" / "vega-embed.min.js",
        "mathjax/tex-chtml.js": MATHJAX / "tex-chtml.js",
    }
    fonts = {font.name: font for font in WIDGETS.iterdir() if font.suffix in {".woff", ".woff2", ".ttf"}}
    chtml = MATHJAX / "output" / "chtml" / "fonts" / "woff-v2"
    math_fonts = {f"mathjax/output/chtml/fonts/woff-v2/{font.name}": font for font in chtml.iterdir()}
    own = {path.name: path for path in FRONT.iterdir()}
    return single | fonts | math_fonts | own


def copy() -> None:
    """Make the folder hold exactly these files. A file that is there already keeps its time."""
    wanted = {VENDOR / name: source for name, source in files().items()}
    for target, source in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    for path in set(VENDOR.rglob("*")) - wanted.keys():
        if path.is_file():
            path.unlink()
