"""Tensors out of files, without running anything that the file brings.

Pickles are refused: loading one runs code of the file's maker. PyTorch files are read with `weights_only=True`.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

LARGEST = 2**28  # values of one tensor that are read
SAFETENSORS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
}

Opener = Callable[[], BinaryIO]
Tensors = dict[str, Callable[[], Any]]


class FileError(ValueError):
    """The file cannot be read; the message says why and what can."""


def open_tensors(source: str | Path | bytes, filename: str | None = None) -> Tensors:
    """The tensors of a file: name -> a function that reads that one.

    Args:
        source: a path, or the content of the file.
        filename: the file's name, whose ending says what it is; needed with a content.

    Raises:
        FileError: no such file, an ending that is not known, or a content that is not what the ending says.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        path, opener = Path(filename or "?"), partial(io.BytesIO, bytes(source))
    else:
        path = _found(str(source).strip())
        opener = partial(open, path, "rb")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise FileError(f"{path.name} ends in {path.suffix or 'nothing'}; {_REMEDY.get(path.suffix.lower(), '')}"
                        f"readable are {', '.join(READERS)}")
    try:
        tensors = reader(opener, path.stem)
    except FileError as problem:
        raise FileError(f"{path.name}: {problem}") from None
    except Exception as problem:
        raise FileError(f"{path.name} is not a readable {path.suffix} file: "
                        f"{type(problem).__name__}: {problem}") from None
    if not tensors:
        raise FileError(f"{path.name} holds no tensor")
    return {name: partial(_read, read, f"{path.name}: {name}") for name, read in tensors.items()}


def _found(name: str) -> Path:
    try:
        path = Path(name).expanduser()
        if path.is_file():
            return path
    except (OSError, RuntimeError) as problem:  # too long a name, a folder that may not be read, ~nobody
        raise FileError(f"{name[:100]!r} cannot be looked up: {problem}") from None
    raise FileError(f"there is no file {str(path)!r}; give a path as this notebook's kernel sees it")


def _read(read: Callable[[], Any], name: str) -> Any:
    try:
        return read()
    except FileError as problem:
        raise FileError(f"{name}: {problem}") from None
    except Exception as problem:
        raise FileError(f"{name} cannot be read: {type(problem).__name__}: {problem}") from None


# -- one reader a kind of file: (opener, stem) -> name -> function that reads ------------------------------------------


def _npy(opener: Opener, stem: str) -> Tensors:
    with opener() as file:
        _check_npy_header(file)
    return {stem: partial(_load_npy, opener)}


def _load_npy(opener: Opener) -> np.ndarray:
    with opener() as file:
        return np.load(file, allow_pickle=False)


def _check_npy_header(file: BinaryIO) -> None:
    """Refuse, before reading them, values that are pickled objects or too many."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise FileError(f"it holds Python objects ({dtype}), which only unpickling could read, and that would run code "
                        "of the file's maker. Save numbers: np.save(name, array.astype(float))")
    if dtype.itemsize > 64:
        raise FileError(f"it holds {dtype}, {dtype.itemsize:,} bytes each, which are not numbers")
    _check_size(math.prod(shape))


def _npz(opener: Opener, stem: str) -> Tensors:
    with opener() as file:
        if not zipfile.is_zipfile(file):
            raise FileError("it is not a readable .npz file: it is no zip archive, as np.savez makes them")
    with opener() as file, np.load(file, allow_pickle=False) as archive:
        return {name: partial(_load_npz, opener, name) for name in archive.files}


def _load_npz(opener: Opener, name: str) -> np.ndarray:
    with opener() as file, np.load(file, allow_pickle=False) as archive:
        member = name if name in archive.zip.namelist() else f"{name}.npy"
        with archive.zip.open(member) as header:
            _check_npy_header(header)
        return archive[name]


def _torch(opener: Opener, stem: str) -> Tensors:
    with opener() as file:
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as problem:
            raise FileError("it holds more than tensors, and to load that would run code of the file's maker. Save "
                            f"tensors alone: torch.save(model.state_dict(), name). torch says: {_first_line(problem)}"
                            ) from None
    return {name: partial(_checked, tensor) for name, tensor in _tensors_in(content, "", set())}


def _tensors_in(content: Any, name: str, seen: set[int]):
    """Every tensor in nested dictionaries and lists, with a name like optimizer.state.0.

    Each dictionary and list is looked into once: a short file can hold a list of twice the same list, and so on, which
    has more paths than anybody can walk.
    """
    if isinstance(content, torch.Tensor):
        yield name or "tensor", content
    elif isinstance(content, Mapping | list | tuple) and id(content) not in seen:
        seen.add(id(content))
        for key, part in content.items() if isinstance(content, Mapping) else enumerate(content):
            yield from _tensors_in(part, f"{name}.{key}" if name else str(key), seen)


def _safetensors(opener: Opener, stem: str) -> Tensors:
    """Layout: 8 bytes little-endian length of the header, the header in JSON, then the values.

    Source: https://huggingface.co/docs/safetensors
    """
    with opener() as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= 100_000_000:  # the limit of the format itself
            raise FileError(f"its header would be {length} bytes long; this is no safetensors file")
        text = file.read(length)
    if len(text) < length or not isinstance(header := json.loads(text), dict):
        raise FileError(f"its header should be {length} bytes of names; the file is cut off or damaged")
    return {name: partial(_load_safetensor, opener, 8 + length, entry)
            for name, entry in header.items() if name != "__metadata__"}


def _load_safetensor(opener: Opener, data: int, entry: dict) -> torch.Tensor:
    if entry["dtype"] not in SAFETENSORS:
        raise FileError(f"its dtype is {entry['dtype']}; readable are {', '.join(SAFETENSORS)}")
    (start, end), shape = entry["data_offsets"], entry["shape"]
    if not all(isinstance(n, int) and n >= 0 for n in [start, end, *shape]):
        raise FileError(f"its shape is {shape} and its place {start} to {end}; expected whole numbers from 0 on")
    dtype, size = SAFETENSORS[entry["dtype"]], math.prod(shape)
    _check_size(size)
    content = bytearray()
    if end - start == size * dtype.itemsize:
        with opener() as file:
            file.seek(data + start)
            content = bytearray(file.read(end - start))
    if len(content) != size * dtype.itemsize:
        raise FileError(f"{len(content)} bytes stand where shape {shape} of {entry['dtype']} needs "
                        f"{size * dtype.itemsize}: the file is cut off or damaged")
    return (torch.frombuffer(content, dtype=dtype) if size else torch.empty(0, dtype=dtype)).reshape(shape)


def _csv(opener: Opener, stem: str) -> Tensors:
    """Columns of numbers; a first line without numbers is their names. An empty field is NaN."""
    with opener() as file:
        lines = [line for line in io.TextIOWrapper(file, "utf-8-sig").read().splitlines() if line.strip()]
    if not lines:
        return {}
    delimiter = next((mark for mark in "\t;," if mark in lines[0]), " ")
    rows = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    named = not any(_is_number(field) for field in rows[0])
    names = rows[0] if named else [f"column {i}" for i in range(1, len(rows[0]) + 1)]
    table = np.array([_numbers(row, line, len(names)) for line, row in enumerate(rows[named:], 1 + named)])
    _check_size(table.size)
    if not table.size:
        return {}
    names = [name.strip() for name in names]
    columns = {f"{name} (column {i + 1})" if names.count(name) > 1 else name: partial(_checked, table[:, i])
               for i, name in enumerate(names)}
    return {"all columns": partial(_checked, table), **columns} if len(names) > 1 else columns


def _numbers(row: list[str], line: int, width: int) -> list[float]:
    if len(row) != width:
        raise FileError(f"line {line} has {len(row)} fields, the first line {width}")
    for column, field in enumerate(row, 1):
        if field.strip() and not _is_number(field):
            raise FileError(f"line {line}, field {column} is {field.strip()!r}; expected a number")
    return [float(field) if field.strip() else math.nan for field in row]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _checked(tensor: Any) -> Any:
    _check_size(math.prod(tensor.shape))
    return tensor


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise FileError(f"it holds {size:,} values; at most {LARGEST:,} are read. Save a part of it")


def _first_line(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0]


READERS = {".npy": _npy, ".npz": _npz, ".pt": _torch, ".pth": _torch, ".bin": _torch, ".safetensors": _safetensors,
           ".csv": _csv, ".tsv": _csv, ".txt": _csv}
_PICKLE = "a pickle runs code of its maker when it is loaded, so it is refused; "
_REMEDY = {".pkl": _PICKLE, ".pickle": _PICKLE, ".joblib": _PICKLE}
