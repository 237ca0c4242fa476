"""Arithmetic as machines do it: sums, products and norms in a chosen format, with a chosen accumulator and order.

`accumulate` holds the sums, `norms` what is built on them; this is the one name for both.

    >>> from sixteenbits import arithmetic
    >>> arithmetic.sum([0.1] * 1000, "fp16"), arithmetic.sum([0.1] * 1000, "fp16", order="pairwise")
    (np.float64(105.1875), np.float64(100.0))
"""

from sixteenbits.accumulate import (
    ACCUMULATORS,
    FP22,
    ORDERS,
    Accumulator,
    Order,
    chunks_of,
    dot,
    exact_dot,
    exact_sum,
    matmul,
    random_walk,
    relative_error,
    sum,
    worst_case,
)
from sixteenbits.norms import FORMS, cross_entropy, failed_rows, layer_norm, logsumexp, rms_norm, softmax, variance

__all__ = ["ACCUMULATORS", "FORMS", "FP22", "ORDERS", "Accumulator", "Order", "chunks_of", "cross_entropy", "dot",
           "exact_dot", "exact_sum", "failed_rows", "layer_norm", "logsumexp", "matmul", "random_walk",
           "relative_error", "rms_norm", "softmax", "sum", "variance", "worst_case"]
