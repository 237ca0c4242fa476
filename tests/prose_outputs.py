"""What the cells of an executed chapter print in front of the reader.

Counted as printed: text streams, `text/plain`, `text/html` (without its tags), the message of an exception; and of a
chart its alternative text, titles and other words, with the data of charts that have at most `FEW_ROWS` rows. A larger
chart shows a shape, not numbers: among thousands of points nearly any number would be found.

Not counted: the state of widgets, images, standard error, cells that the book leaves out (`remove-cell`,
`remove-output`).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

FEW_ROWS = 64
LEFT_OUT = {"remove-cell", "remove-output", "remove_cell", "remove_output"}
CHART = re.compile(r"application/vnd\.vegalite\.v\d+\+json")
_TAG = re.compile(r"<(?!/?su[bp]>)[^>]*>")
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)


def joined(text: str | list[str]) -> str:
    """nbformat lets a long string be a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def charts(cell: dict) -> list[dict]:
    """The Vega-Lite specifications among a cell's outputs."""
    found = []
    for output in cell.get("outputs", []):
        for mime, content in output.get("data", {}).items():
            if CHART.fullmatch(mime):
                found.append(json.loads(joined(content)) if isinstance(content, str | list) else content)
    return found


def _words(node) -> Iterator[str]:
    """Every string in a part of a chart's specification."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for key, value in node.items():
            if key not in ("data", "datasets", "config", "$schema", "usermeta"):
                yield from _words(value)
    elif isinstance(node, list):
        for value in node:
            yield from _words(value)


def _tables(node) -> Iterator[list]:
    """The data tables in a chart's specification."""
    if isinstance(node, dict):
        data = node.get("data")
        if isinstance(data, dict) and isinstance(data.get("values"), list):
            yield data["values"]
        for key, value in node.items():
            if key == "datasets":
                yield from value.values()
            elif key != "values":
                yield from _tables(value)
    elif isinstance(node, list):
        for value in node:
            yield from _tables(value)


def chart_text(spec: dict) -> str:
    """What a chart says: its words, and its data if they are few."""
    few = [rows for rows in _tables(spec) if len(rows) <= FEW_ROWS]
    cells = [str(value) for rows in few for row in rows
             for value in (row.values() if isinstance(row, dict) else [row])]
    return "\n".join([*_words(spec), *cells])


def _output_text(output: dict) -> str:
    if output["output_type"] == "stream":
        return joined(output["text"]) if output["name"] == "stdout" else ""
    if output["output_type"] == "error":
        return output["evalue"]
    data = output.get("data", {})
    page = html.unescape(_TAG.sub(" ", _HIDDEN.sub(" ", joined(data.get("text/html", "")))))
    return joined(data.get("text/plain", "")) + "\n" + page


def printed(cell: dict) -> str:
    """What a code cell prints; empty for other cells and for cells that the book leaves out."""
    if cell["cell_type"] != "code" or LEFT_OUT & set(cell["metadata"].get("tags", [])):
        return ""
    return "\n".join([*map(_output_text, cell["outputs"]), *map(chart_text, charts(cell))])


def printed_text(notebook: Path) -> str:
    """What all cells of an executed notebook print."""
    return "\n".join(printed(cell) for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"])
