"""The range console: a tensor of the reader's own beside the formats, in a notebook with a kernel.

Built from ipywidgets that look alike in versions 7.7 (Colab) and 8. A static page has no kernel behind its controls,
so `range_console` shows recorded examples there instead, which stay explorable.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping
from typing import Any

import ipywidgets
import numpy as np
import torch
from IPython import get_ipython
from IPython.display import Markdown, clear_output, display

from sixteenbits.expression import ExpressionError, evaluate, is_usable
from sixteenbits.figures_range import SHOWN, placed
from sixteenbits.formats import Format, as_format
from sixteenbits.tables import survey_table
from sixteenbits.tensor_files import READERS, FileError, open_tensors
from sixteenbits.tensors import survey, values

#: Set to 1 while the book is built: the page that comes out has no kernel.
STATIC = "SIXTEENBITS_STATIC"
AT_MOST = 2**22  # values that are surveyed; of a larger tensor a sample is

_LIVE = """Behind this page there is no kernel, so here are examples in the place of your own tensor. To look at your
own, run this chapter: on Colab with the rocket button at the top, or in Jupyter on your machine. Then a console for an
expression, a file or a network stands here."""


def range_console(examples: Mapping[str, Any], formats: Iterable[Format | str] = SHOWN) -> Any:
    """A `RangeConsole` with these examples; while the book is built, the examples as a chart that stays explorable."""
    if os.environ.get(STATIC):
        display(Markdown(_LIVE))
        return placed(examples, formats)
    return RangeConsole(examples, formats)


def summary(x: np.ndarray, shape: tuple, dtype: str) -> str:
    """What the tensor holds, in one sentence."""
    finite = np.abs(x[np.isfinite(x)], dtype=np.float64)
    numbers = finite[finite > 0]
    special = [f"{count:,} {name}" for name, count in (
        ("zero", finite.size - numbers.size), ("infinite", np.isinf(x).sum()), ("NaN", np.isnan(x).sum())) if count]
    extent = f"magnitudes {numbers.min():.3g} to {numbers.max():.3g}" if numbers.size else "no other number"
    return f"shape {shape}, {dtype}, {x.size:,} values{''.join(f', {s}' for s in special)}; {extent}"


class RangeConsole(ipywidgets.VBox):
    """Controls to choose a tensor, and below them what each format makes of it.

    Args:
        examples: name -> tensor, offered in the last pane; the first one is shown at the beginning.
        formats: the rows of the table.
        namespace: what expressions may name and where networks are looked for; None means the notebook's variables.
    """

    def __init__(self, examples: Mapping[str, Any] | None = None, formats: Iterable[Format | str] = SHOWN,
                 namespace: Mapping[str, Any] | None = None):
        self.formats = [as_format(f) for f in formats]
        self.examples = dict(examples or {})
        self._namespace = namespace
        self._file, self._weights = {}, {}
        self.message, self.table = ipywidgets.HTML(), ipywidgets.HTML()
        self.chart = None
        self.picture = ipywidgets.Output()
        panes = {"Expression": self._expression_pane(), "File": self._file_pane(), "Network": self._network_pane()}
        if self.examples:
            panes["Examples"] = self._example_pane()
        self.panes = ipywidgets.Tab(list(panes.values()))
        for index, title in enumerate(panes):
            self.panes.set_title(index, title)
        super().__init__([self.panes, self.message, self.table, self.picture])
        for name in list(self.examples)[:1]:
            self.panes.selected_index = len(panes) - 1
            self.show(self.examples[name], name)

    # -- the panes -------------------------------------------------------------------------------------------------

    def _expression_pane(self) -> ipywidgets.VBox:
        self.expression = _wide(ipywidgets.Text(
            description="Expression", placeholder="np.logspace(-12, 6, 1000)", continuous_update=False))
        self.run_button = ipywidgets.Button(description="Show", button_style="primary")
        self.run_button.on_click(lambda _: self.show_expression())
        hint = "One line with <code>np</code>, <code>torch</code> and the tensors of this notebook."
        return ipywidgets.VBox([ipywidgets.HTML(hint), ipywidgets.HBox([self.expression, self.run_button])])

    def _file_pane(self) -> ipywidgets.VBox:
        self.upload = ipywidgets.FileUpload(accept=",".join(READERS), multiple=False)
        self.path = _wide(ipywidgets.Text(description="or its path", placeholder="model.safetensors"))
        self.open_button = ipywidgets.Button(description="Open")
        self.part = _wide(ipywidgets.Dropdown(description="Tensor", options=[], disabled=True))
        self.upload.observe(lambda _: self.open_upload(), "value")
        self.open_button.on_click(lambda _: self.open_file(self.path.value))
        self.part.observe(lambda change: self.show_part(), "value")
        hint = f"A file of numbers ({', '.join(READERS)}). Pickled objects are refused."
        by_path = ipywidgets.HBox([self.path, self.open_button])
        return ipywidgets.VBox([ipywidgets.HTML(hint), self.upload, by_path, self.part])

    def _network_pane(self) -> ipywidgets.VBox:
        self.network = _wide(ipywidgets.Dropdown(description="Network", options=[]))
        self.weight = _wide(ipywidgets.Dropdown(description="Tensor", options=[]))
        self.look_button = ipywidgets.Button(description="Look again", tooltip="List the notebook's networks anew")
        self.network.observe(lambda _: self.list_weights(), "value")
        self.weight.observe(lambda _: self.show_weight(), "value")
        self.look_button.on_click(lambda _: self.find_networks())
        self.find_networks()
        hint = "Any <code>torch.nn.Module</code> among this notebook's variables, by weight, gradient or buffer."
        return ipywidgets.VBox([ipywidgets.HTML(hint), ipywidgets.HBox([self.network, self.look_button]), self.weight])

    def _example_pane(self) -> ipywidgets.VBox:
        self.example = _wide(ipywidgets.Dropdown(description="Tensor", options=list(self.examples)))
        self.example.observe(lambda change: self.show(self.examples[change["new"]], change["new"]), "value")
        return ipywidgets.VBox([self.example])

    # -- where the tensor comes from -------------------------------------------------------------------------------

    @property
    def namespace(self) -> dict[str, Any]:
        """The notebook's variables that an expression may name."""
        found = self._namespace
        if found is None:
            found = getattr(get_ipython(), "user_ns", {})
        return {k: v for k, v in found.items() if not k.startswith("_") and k not in ("In", "Out") and is_usable(v)}

    def show_expression(self) -> None:
        """Show what the expression gives."""
        text = self.expression.value.strip()
        try:
            tensor = evaluate(text, self.namespace)
        except ExpressionError as problem:
            return self._complain(problem)
        return self.show(tensor, text)

    def open_upload(self) -> None:
        """Open what was uploaded; ipywidgets 7 hands over a dictionary, 8 a tuple."""
        files = self.upload.value
        if isinstance(files, Mapping):
            files = [{"name": name, "content": file["content"]} for name, file in files.items()]
        for file in files[-1:]:
            self.open_file(bytes(file["content"]), file["name"])

    def open_file(self, source: str | bytes, filename: str | None = None) -> None:
        """Open a file, list its tensors and show the first."""
        self.part.options, self.part.disabled = [], True
        try:
            self._file = open_tensors(source, filename)
        except (FileError, OSError) as problem:
            return self._complain(problem)
        self.part.options, self.part.disabled = list(self._file), False
        if self.part.value is None:  # ipywidgets 7 selects the first by itself, 8 does not
            self.part.index = 0
        return None

    def show_part(self) -> None:
        """Show the chosen tensor of the file."""
        if self.part.value is None:
            return None
        try:
            tensor = self._file[self.part.value]()
        except FileError as problem:
            return self._complain(problem)
        return self.show(tensor, self.part.value)

    def find_networks(self) -> None:
        """List the torch modules among the variables."""
        names = [name for name, value in self.namespace.items() if isinstance(value, torch.nn.Module)]
        self.network.options = _choices(names)
        self.list_weights()

    def list_weights(self) -> None:
        """List the tensors of the chosen network."""
        network = self.namespace.get(self.network.value)
        self._weights = {} if network is None else network_tensors(network)
        self.weight.options = _choices(self._weights)

    def show_weight(self) -> None:
        """Show the chosen tensor of the network."""
        if self.weight.value is not None:
            self.show(self._weights[self.weight.value], self.weight.value)

    # -- what is shown ---------------------------------------------------------------------------------------------

    def show(self, tensor: Any, name: str = "tensor") -> None:
        """Show what each format makes of the tensor, or say why it cannot be looked at."""
        try:
            x = values(tensor, "this tensor")
            note, sample = _sample(x)
            surveys = [survey(sample, f) for f in self.formats]
            self.chart = placed({name: sample}, self.formats)
        except (TypeError, ValueError, MemoryError) as problem:
            return self._complain(problem)
        about = summary(x, tuple(np.shape(tensor)), str(getattr(tensor, "dtype", "float64")))
        self.message.value = f"<p><strong>{html.escape(name)}</strong>: {html.escape(about)}.{note}</p>"
        self.table.value = survey_table(surveys, "Shares of the finite values that are not zero")._repr_html_()
        self._draw()
        return None

    def _complain(self, problem: Exception) -> None:
        self.chart, self.table.value = None, ""
        self.message.value = f'<p role="alert"><strong>Not shown:</strong> {html.escape(str(problem))}.</p>'
        self._draw()

    def _draw(self) -> None:
        with self.picture:
            clear_output(wait=self.chart is not None)  # keep the old chart until the new one is there, if there is one
            if self.chart is not None:
                display(self.chart)


def network_tensors(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every weight, gradient and buffer of a network that holds floating-point values, by name."""
    found = {}
    for name, weight in network.named_parameters():
        found[name] = weight
        if weight.grad is not None:
            found[f"{name}.grad"] = weight.grad
    found.update(network.named_buffers())
    return {name: tensor for name, tensor in found.items() if tensor.is_floating_point()}


def _sample(x: np.ndarray) -> tuple[str, np.ndarray]:
    if x.size <= AT_MOST:
        return "", x
    chosen = np.random.default_rng(0).integers(x.size, size=AT_MOST)
    return f" Table and chart rest on a random sample of {AT_MOST:,} values.", x[chosen]


def _choices(names: Iterable[str]) -> list[tuple[str, str | None]]:
    """The options of a menu that begins with no choice."""
    names = list(names)
    return [("choose ..." if names else "none found", None), *((name, name) for name in names)]


def _wide(widget: ipywidgets.Widget) -> ipywidgets.Widget:
    widget.layout.width = "min(32rem, 100%)"
    return widget
