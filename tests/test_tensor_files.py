"""Tensors out of files: every kind that is readable, and every way in which a file can be bad."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import torch

from sixteenbits import tensor_files
from sixteenbits.tensor_files import READERS, FileError, open_tensors

X = np.array([[1.5, -2.0], [0.1, 3e-9]], dtype=np.float32)


def npy(array, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npz(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def pt(content) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def safetensors(tensors: dict, cut: int = 0) -> bytes:
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, array) in tensors.items():
        content = array.tobytes()
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    return (len(text).to_bytes(8, "little") + text + data)[: None if not cut else -cut]


def read(content: bytes, filename: str, name: str | None = None) -> np.ndarray:
    tensors = open_tensors(content, filename)
    return np.asarray(tensors[name or next(iter(tensors))]())


def test_npy():
    assert list(open_tensors(npy(X), "a.npy")) == ["a"]
    assert np.array_equal(read(npy(X), "a.npy"), X)


def test_npz():
    content = npz(first=X, second=X[0])
    assert list(open_tensors(content, "a.npz")) == ["first", "second"]
    assert np.array_equal(read(content, "a.npz", "second"), X[0])


def test_state_dict_and_nested_checkpoint():
    layer = torch.nn.Linear(2, 3)
    assert list(open_tensors(pt(layer.state_dict()), "a.pt")) == ["weight", "bias"]
    content = pt({"model": layer.state_dict(), "step": 3, "moments": [torch.ones(2), torch.zeros(1)]})
    assert list(open_tensors(content, "a.pth")) == ["model.weight", "model.bias", "moments.0", "moments.1"]
    assert np.array_equal(read(content, "a.bin", "model.bias"), layer.bias.detach())
    assert np.array_equal(read(pt(torch.tensor(X)), "a.pt", "tensor"), X)


def test_safetensors_reads_one_tensor_at_a_time(tmp_path):
    half = torch.tensor(X).bfloat16()
    path = tmp_path / "model.safetensors"
    bits = half.view(torch.int16).numpy()
    path.write_bytes(safetensors({"w": ("F32", X), "h": ("BF16", bits), "none": ("F32", X[:0])}))
    tensors = open_tensors(path)
    assert list(tensors) == ["w", "h", "none"]
    assert torch.equal(tensors["w"](), torch.tensor(X))
    assert torch.equal(tensors["h"](), half)
    assert tensors["none"]().numel() == 0


@pytest.mark.parametrize(("text", "names", "column"), [
    ("1,2\n3,4\n", ["all columns", "column 1", "column 2"], [1, 3]),
    ("a;b\n1;2\n3;4", ["all columns", "a", "b"], [1, 3]),
    ("\ufeffx\n1e-9\nnan\n\ninf\n", ["x"], [1e-9, np.nan, np.inf]),
    ("1 2\n3 4\n", ["all columns", "column 1", "column 2"], [1, 3]),
    ("1\t\n3\t4\n", ["all columns", "column 1", "column 2"], [1, 3]),
])
def test_csv(text, names, column):
    tensors = open_tensors(text.encode(), "a.csv")
    assert list(tensors) == names
    assert np.array_equal(tensors[names[min(1, len(names) - 1)]](), column, equal_nan=True)


def test_columns_of_the_same_name_are_told_apart():
    tensors = open_tensors(b"a,b,a\n1,2,3\n", "a.csv")
    assert list(tensors) == ["all columns", "a (column 1)", "b", "a (column 3)"]
    assert tensors["a (column 3)"]() == [3]


def test_shared_and_circular_lists_are_walked_once():
    nested = [torch.ones(1)]
    for _ in range(40):
        nested = [nested, nested]
    assert len(open_tensors(pt(nested), "a.pt")) == 1
    circle = [torch.ones(1)]
    circle.append(circle)
    assert list(open_tensors(pt(circle), "a.pt")) == ["0"]


def header(entry, length: int | None = None) -> bytes:
    """A safetensors file of one tensor, with this entry and eight bytes of values."""
    text = json.dumps({"w": entry} if isinstance(entry, dict) else entry).encode()
    return (length or len(text)).to_bytes(8, "little") + text + bytes(8)


def at(start: int, end: int, *shape) -> dict:
    return {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}


@pytest.mark.parametrize(("content", "says"), [
    (header(at(-8, 0, 2)), "whole numbers from 0"), (header(at(0, 8, -2, -1)), "whole numbers from 0"),
    (header(at(0, 8, 2.0)), "whole numbers from 0"), (header(at(8, 0, 2)), "damaged"),
    (header(at(0, 2**60, 2)), "damaged"), (header(at(0, 8, 3)), "damaged"), (header({}), "dtype"),
    (header([1]), "damaged"), (header({}, 2**60), "no safetensors file"), (header({}, 10**7), "damaged"),
])
def test_safetensors_that_lie_about_themselves(content, says):
    with pytest.raises(FileError, match=says):
        read(content, "a.safetensors")


def test_an_empty_safetensor_keeps_its_shape():
    assert read(header(at(0, 0, 0, 3)), "a.safetensors").shape == (0, 3)


class Evil:
    def __reduce__(self):
        raise AssertionError("the file's own code ran")


def evil_pickle() -> bytes:
    return b"cbuiltins\nexec\n(S'raise SystemExit'\ntR."


@pytest.mark.parametrize(("filename", "content", "says"), [
    ("a.pkl", evil_pickle(), "a pickle runs code"),
    ("a.pt", evil_pickle(), "would run code of the file's maker"),
    ("a.pt", pt(torch.nn.Linear(1, 1)), "torch.save\\(model.state_dict"),
    ("a.pt", b"", "not a readable .pt file"), ("a.pt", b"junk", "a.pt"),
    ("a.npy", npy(np.array([{}], dtype=object)), "Python objects"),
    ("a.npy", pickle.dumps([1.0]), "not a readable .npy file"), ("a.npy", b"", "not a readable"),
    ("a.npy", npy(X)[:-3], None), ("a.npz", npz(bad=np.array([{}], dtype=object)), None),
    ("a.npz", b"junk", "no zip archive"), ("a.npz", npy(X), "no zip archive"),
    ("a.npy", npy(np.array(["x" * 99])), "not numbers"), ("a.safetensors", b"\xff" * 20, "no safetensors file"),
    ("a.safetensors", b"\x02" + b"\0" * 7 + b"[", "cut off"),
    ("a.safetensors", b"\x02" + b"\0" * 7 + b"[(", "not a readable"),
    ("a.safetensors", safetensors({"w": ("F32", X)}, cut=4), None),
    ("a.safetensors", safetensors({"w": ("F99", X)}), None),
    ("a.safetensors", safetensors({}), "holds no tensor"), ("a.pt", pt({"step": 3}), "holds no tensor"),
    ("a.csv", b"", "holds no tensor"), ("a.csv", b"name\n", "holds no tensor"),
    ("a.csv", b"1,2\n3\n", "line 2 has 1 fields"), ("a.csv", b"1\nx\n", "line 2, field 1 is 'x'"),
    ("a.csv", b"\xff\xfe\x00", "not a readable"), ("a.jpg", b"", "readable are .npy"), ("a", b"", "ends in nothing"),
])
def test_bad_files_are_refused_in_words(filename, content, says):
    with pytest.raises(FileError, match=says):
        read(content, filename)


def test_a_missing_file():
    with pytest.raises(FileError, match="there is no file"):
        open_tensors("/nowhere/at/all.npy")


def test_a_name_that_no_file_can_have():
    for name in ["~nobody-of-this-name/x.npy", "x" * 5000 + ".npy"]:
        with pytest.raises(FileError, match="cannot be looked up"):
            open_tensors(name)


def test_what_is_too_large_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(tensor_files, "LARGEST", 3)
    for filename, content in [("a.npy", npy(X)), ("a.npz", npz(x=X)), ("a.pt", pt(torch.tensor(X))),
                              ("a.safetensors", safetensors({"w": ("F32", X)})), ("a.csv", b"1,2\n3,4")]:
        with pytest.raises(FileError, match="4 values; at most 3"):
            read(content, filename)


def test_a_zip_bomb_is_refused_by_its_header():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(FileError, match="1,000,000,000,000 values"):
        read(stream.getvalue(), "a.npz")


def test_every_ending_has_a_reader():
    assert set(READERS) == {".npy", ".npz", ".pt", ".pth", ".bin", ".safetensors", ".csv", ".tsv", ".txt"}
