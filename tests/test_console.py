"""The range console, operated through its widgets without a browser, with whichever ipywidgets is installed."""

import io
import re
from datetime import UTC, datetime

import ipywidgets
import numpy as np
import pytest
import torch

from sixteenbits import console
from sixteenbits.console import RangeConsole, network_tensors, range_console

LAYER = torch.nn.Linear(3, 4)


@pytest.fixture
def panel() -> RangeConsole:
    return RangeConsole({"half": np.array([1.0, 1e-9]), "wide": [1e30]}, ["fp16", "bf16"],
                        namespace={"layer": LAYER, "x": np.array([1e-9, 70000.0, 0.0]), "_hidden": LAYER, "text": "no"})


def upload(widget: ipywidgets.FileUpload, name: str, content: bytes) -> None:
    """What the browser does when a file is chosen, in ipywidgets 7 and 8."""
    if int(ipywidgets.__version__.split(".")[0]) >= 8:
        widget.value = ({"name": name, "type": "", "size": len(content), "content": content,
                         "last_modified": datetime.now(UTC)},)
    else:
        widget.metadata, widget.data = [{"name": name}], [content]
        widget._counter += 1


def row(panel: RangeConsole, format: str) -> list[str]:
    """The cells of a format's row: zero, subnormal, rounded, exact, overflow, median error, largest error."""
    return re.findall("<td[^>]*>(.*?)</td>", re.search(f"{format}</th>(.*?)</tr>", panel.table.value)[1])


def complaint(panel: RangeConsole) -> str:
    assert 'role="alert"' in panel.message.value
    assert panel.table.value == ""
    assert panel.chart is None
    return panel.message.value


def type_in(panel: RangeConsole, text: str) -> None:
    panel.expression.value = text
    panel.run_button.click()


def test_the_first_example_is_shown_at_once(panel):
    assert "half" in panel.message.value
    assert row(panel, "FP16")[:5] == ["50 %", "0 %", "0 %", "50 %", "0 %"]


def test_another_example(panel):
    panel.example.value = "wide"
    assert row(panel, "FP16")[4] == "100 %"
    assert row(panel, "BF16")[4] == "0 %"


def test_an_expression_with_a_variable_of_the_notebook(panel):
    type_in(panel, "x")
    assert "1 zero" in panel.message.value
    assert "3 values" in panel.message.value
    assert row(panel, "FP16") == ["50 %", "0 %", "0 %", "0 %", "50 %", "infinite", "infinite"]
    assert panel.chart.to_dict()["description"]


def test_an_expression_is_shown_as_text_not_markup(panel):
    type_in(panel, "x[x < 1] * 1")
    assert "x[x &lt; 1]" in panel.message.value


@pytest.mark.parametrize(("text", "says"), [
    ("", "no expression yet"), ("np.zeros(0)", "empty"), ("x[:1] * np.nan", "nothing but NaN"),
    ("1j * x", "complex"), ("np.zeros(10**12)", "at most"), ("open('x')", "nothing usable is named"),
    ("np.array(['a'])", "real numbers"), ("layer", "it has weight, bias"), ("text", "nothing usable"),
    ("_hidden", "nothing usable"),
])
def test_bad_expressions_are_answered_in_words(panel, text, says):
    type_in(panel, text)
    assert says in complaint(panel)


def test_it_recovers_after_a_complaint(panel):
    type_in(panel, "")
    type_in(panel, "torch.tensor([1.0, 2.0]).bfloat16()")
    assert row(panel, "BF16")[3] == "100 %"
    assert "torch.bfloat16" in panel.message.value


def test_an_uploaded_file(panel):
    stream = io.BytesIO()
    np.savez(stream, small=np.array([1e-9]), large=np.array([1e9]))
    upload(panel.upload, "mine.npz", stream.getvalue())
    assert panel.part.options == ("small", "large")
    assert row(panel, "FP16")[0] == "100 %"
    panel.part.value = "large"
    assert row(panel, "FP16")[4] == "100 %"


def test_a_file_by_path(panel, tmp_path):
    torch.save({"w": torch.tensor([1e-9])}, tmp_path / "a.pt")
    panel.path.value = str(tmp_path / "a.pt")
    panel.open_button.click()
    assert panel.part.options == ("w",)
    assert row(panel, "FP16")[0] == "100 %"


@pytest.mark.parametrize(("name", "content", "says"), [
    ("a.pkl", b"cos\nsystem\n", "a pickle runs code"), ("a.pt", b"cos\nsystem\n(S'false'\ntR.", "would run code"),
    ("a.jpg", b"", "readable are"), ("a.csv", b"1\nx", "expected a number"), ("a.csv", b"nan\nnan", "nothing but NaN"),
])
def test_bad_files_are_answered_in_words(panel, name, content, says):
    upload(panel.upload, name, content)
    assert says in complaint(panel)
    assert panel.part.disabled == (panel.part.options == ())


def test_a_path_that_leads_nowhere(panel):
    panel.path.value = "/nowhere.npy"
    panel.open_button.click()
    assert "there is no file" in complaint(panel)


def test_a_network_by_its_weights(panel):
    assert [label for label, _ in panel.network.options] == ["choose ...", "layer"]
    panel.network.value = "layer"
    assert [label for label, _ in panel.weight.options] == ["choose ...", "weight", "bias"]
    panel.weight.value = "bias"
    assert "<strong>bias</strong>" in panel.message.value
    assert "shape (4,)" in panel.message.value


def test_networks_that_come_later_are_found():
    variables = {}
    panel = RangeConsole(namespace=variables)
    assert [label for label, _ in panel.network.options] == ["none found"]
    variables["later"] = LAYER
    panel.look_button.click()
    assert [label for label, _ in panel.network.options] == ["choose ...", "later"]


def test_the_tensors_of_a_network():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    network(torch.ones(3, 2)).sum().backward()
    assert list(network_tensors(network)) == [
        "0.weight", "0.weight.grad", "0.bias", "0.bias.grad", "1.weight", "1.weight.grad", "1.bias", "1.bias.grad",
        "1.running_mean", "1.running_var"]


def test_a_large_tensor_is_sampled_and_the_console_says_so(panel, monkeypatch):
    monkeypatch.setattr(console, "AT_MOST", 100)
    panel.show(np.concatenate([np.ones(10_000), [1e30]]), "large")
    assert "random sample of 100 values" in panel.message.value
    assert "magnitudes 1 to 1e+30" in panel.message.value  # of the whole tensor


def test_a_page_without_kernel_gets_no_controls(monkeypatch, capsys):
    monkeypatch.setenv(console.STATIC, "1")
    shown = range_console({"a": np.ones(3)}, ["fp16"])
    assert not isinstance(shown, ipywidgets.Widget)
    assert shown.to_dict()["layer"]
    monkeypatch.delenv(console.STATIC)
    assert isinstance(range_console({"a": np.ones(3)}, ["fp16"]), RangeConsole)
