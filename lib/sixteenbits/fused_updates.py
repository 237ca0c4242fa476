"""The steps of `updates`, compiled by numba for main memory: one call over all tensors of an optimizer.

A block of a tensor is read, changed and written while it is in the processor's first cache. Compiling takes about two
seconds for each `Kind`, once a process; the call runs on one thread.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np

from sixteenbits.formats import FP32, Format
from sixteenbits.kernel import Grid, coding, numba_ops
from sixteenbits.rounding import _grid, _layout, how_to_round
from sixteenbits.updates import RULES, UPDATES, Kind, Numbers, rounder

COMPILE_FROM = 1 << 15  # elements; below, torch is done before numba has compiled
BLOCK = 2048  # elements


def step_all(kind: Kind, addresses: np.ndarray, sizes: np.ndarray, numbers: list[Numbers], all_keys: np.ndarray):
    """Change weights, moments and carries of many contiguous tensors in place, in one compiled call.

    Args:
        addresses: int64, shape (tensors, 5): where weight, gradient, first moment, second moment and carry lie; one
            that does not exist has the address of the weight, and is left alone.
        sizes: elements of each tensor.
        numbers: one for each tensor.
        all_keys: uint64, shape (tensors, 3).
    """
    grids = [Grid(*(np.float32(v) for v in grid)) for grid in kind.grids()]
    _compiled(kind)(addresses, sizes, np.array(numbers, np.float32), all_keys, *grids)


@functools.cache
def _compiled(kind: Kind):
    import numba

    njit = functools.partial(numba.njit, nogil=True, error_model="numpy")
    moments, update, pointer = njit(_moments_loop(kind)), njit(_update_loop(kind)), _pointer()
    names = [_dtype(f) for f in (kind.weight, kind.gradient, kind.first, kind.second, kind.carry)]
    w_type, g_type, m_type, v_type, c_type = names
    carray, block = numba.carray, BLOCK

    def step(addresses, sizes, numbers, all_keys, grid, grid_m, grid_v):
        change = np.empty(block, np.float32)
        for t in range(len(sizes)):
            n = Numbers(numbers[t, 0], numbers[t, 1], numbers[t, 2], numbers[t, 3], numbers[t, 4],
                        numbers[t, 5], numbers[t, 6], numbers[t, 7], numbers[t, 8], numbers[t, 9])
            at, size = addresses[t], sizes[t]
            w, g = carray(pointer(at[0]), size, w_type), carray(pointer(at[1]), size, g_type)
            m, v = carray(pointer(at[2]), size, m_type), carray(pointer(at[3]), size, v_type)
            c = carray(pointer(at[4]), size, c_type)
            for a in range(0, size, block):
                b = min(a + block, size)
                moments(w[a:b], g[a:b], m[a:b], v[a:b], change[:b - a], all_keys[t], np.uint64(a), grid_m, grid_v, n)
                update(w[a:b], c[a:b], change[:b - a], all_keys[t, 0], np.uint64(a), grid, n)

    return njit(step)


def _moments_loop(kind: Kind):
    """The loop of a rule over one block; in the rules, SGD has no second moment."""
    ops, inline = _scalar_ops()
    rule, has_second = inline(RULES[kind.rule](ops)), kind.rule == "adamw"
    _, mode, _ = kind.modes()
    round_m, round_v = inline(rounder(ops, mode, kind.first)), inline(rounder(ops, mode, kind.second))
    load_w, load_g, load_m, load_v = (_load(f) for f in (kind.weight, kind.gradient, kind.first, kind.second))
    store_m, store_v = _store(kind.first), _store(kind.second)

    def loop(w, g, m, v, change, three_keys, start, grid_m, grid_v, n):
        key_m, key_v = three_keys[1], three_keys[2]
        for i in range(len(change)):
            index = start + np.uint64(i)
            new_m, new_v, change[i] = rule(load_w(w[i]), load_g(g[i]) * n.unscale, load_m(m[i]), load_v(v[i]), n)
            m[i] = store_m(round_m(new_m, key_m, index, grid_m))
            if has_second:
                v[i] = store_v(round_v(new_v, key_v, index, grid_v))

    return loop


def _update_loop(kind: Kind):
    ops, inline = _scalar_ops()
    one = inline(UPDATES[kind.update](inline(rounder(ops, kind.modes()[0], kind.weight))))
    load, load_c, store, store_c = _load(kind.weight), _load(kind.carry), _store(kind.weight), _store(kind.carry)
    has_carry = kind.update in ("kahan", "master")

    def loop(w, c, change, key, start, grid, n):
        for i in range(len(change)):
            new, carry = one(load(w[i]), load_c(c[i]), change[i], key, start + np.uint64(i), grid, n)
            w[i] = store(new)
            if has_carry:
                c[i] = store_c(carry)

    return loop


@functools.cache
def _scalar_ops():
    import numba

    inline = functools.partial(numba.njit, inline="always", error_model="numpy")
    return SimpleNamespace(**vars(numba_ops("float32")), sqrt=inline(lambda x: np.sqrt(x))), inline


def _dtype(format: Format):
    return np.float32 if format == FP32 else np.uint16


@functools.cache
def _load(format: Format):
    """The compiled function from what lies in memory (FP32, or a 16-bit code) to the FP32 number."""
    _, inline = _scalar_ops()
    if format == FP32:
        return inline(lambda x: x)
    drop, scale = np.uint32(23 - format.mantissa_bits), np.float32(2.0 ** (127 - format.bias))
    magnitude, special = np.uint32(2**15 - 1), np.uint32(format.infinity_code)
    if scale == 1:  # FP32's exponent field: the code is its upper half
        return inline(lambda code: np.uint32(np.uint32(code) << drop).view(np.float32))

    def load(code):
        size = np.uint32(code) & magnitude
        value = np.uint32(size << drop).view(np.float32) * scale  # exact, subnormals too
        bits = np.float32(value).view(np.uint32)
        bits = (size << drop) | np.uint32(0x7F800000) if size >= special else bits
        return np.uint32(bits | (np.uint32(code) >> np.uint32(15) << np.uint32(31))).view(np.float32)

    return inline(load)


@functools.cache
def _store(format: Format):
    """The compiled function from an FP32 number that the format holds to what lies in memory."""
    ops, inline = _scalar_ops()
    if format == FP32:
        return inline(lambda x: x)
    if format.bias == 127:
        return inline(lambda x: np.uint16(np.float32(x).view(np.uint32) >> np.uint32(16)))
    how = how_to_round(format)
    grid, layout = Grid(*(np.float32(v) for v in _grid(how, "float32"))), _layout(how, "float32")
    code = inline(coding(ops))
    return inline(lambda x: np.uint16(code(x, grid, layout)))


@functools.cache
def _pointer():
    """The compiled function from an address to a pointer, which numba has no word for."""
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def pointer(context, address):
        def generate(_, builder, signature, arguments):
            return builder.inttoptr(arguments[0], cgutils.voidptr_t)

        return types.voidptr(address), generate

    return pointer
