"""Formats of our own that together have every feature that a `Format` can have or lack."""

from sixteenbits.formats import Format

OWN = [
    Format("one_exponent_bit", 1, 3), Format("no_mantissa", 4, 0, nan="none"), Format("signed_powers", 4, 0, nan="fn"),
    Format("even_powers", 4, 0, bias=6, nan="fn"), Format("no_subnormals", 3, 2, subnormals=False),
    Format("no_subnormals_from_2", 3, 2, bias=0, subnormals=False), Format("powers_from_2", 3, 0, bias=0, nan="fn"),
    Format("unsigned", 3, 3, signed=False), Format("p3109_like", 4, 3, bias=8, nan="fnuz", infinities=True),
    Format("biased_up", 4, 3, bias=-20), Format("biased_down", 4, 3, bias=60),
    Format("no_infinity", 4, 2, infinities=False), Format("wide_low", 4, 3, bias=1100),
    Format("wide_high", 4, 3, bias=-1100), Format("unsigned_no_nan", 2, 3, nan="none", signed=False),
    Format("no_zero", 3, 2, nan="fn", subnormals=False, zero=False), Format("eleven_exponent_bits", 11, 4),
    Format("below_float64", 12, 3),
    Format("eleven_bits_without_subnormals", 11, 1, subnormals=False),
    Format("below_float64_without_zero", 12, 0, nan="fn", subnormals=False, signed=False, zero=False),
    Format("unsigned_powers", 3, 0, nan="none", signed=False, bias=2),
]
