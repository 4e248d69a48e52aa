"""Numbers: which texts of RFC 8259 have a value that a schema asks for, exactly and without rounding.

"Value at most 7" is no regular property of texts with arbitrary exponents (1000e-3, 0.001e3, ...), so languages with
bounds or multiples hold these texts, and are exact on them:

- plain decimals of any length, `-0` and `1.50` among them;
- normalised scientific notation as printers write it: one non-zero digit before the point, exponents from -324 to 307
  (308 behind a single digit; further where a bound or a multiple is beyond) with any leading zeros; any number of
  fraction digits, for integers and multiples at most 20 (more if a bound has more);
- zero in all its writings (`0.00e17`).

Without bounds, or with bounds that only concern the sign, every exponent form is in, and every number that binary64 has as
it is printed; integers and multiples that only have their sign bounded may have several digits before the point
(`12.5e1`), if the text shows that they are multiples.  Such mantissas have up to 20 digits before the point and
exponents up to 99.  So no text with an exponent overflows a reader (RFC 8259 section 6).
"""

from grammars.json_schema.numbers.number import equal_number_rx, listed_numbers_rx, number_rx, other_number_rx
from grammars.json_schema.numbers.texts import MEASURED, NUMBER

INTEGER = number_rx(integer=True)
"""Every integer by value."""

__all__ = ["INTEGER", "MEASURED", "NUMBER", "equal_number_rx", "listed_numbers_rx", "number_rx", "other_number_rx"]
