"""Message selectors: the conditions of Jakarta Messaging 3.1, section 3.8, over the columns of a batch of messages.

`compile_selector(text)` reads a text once; `Selector.mask` says for a whole batch which messages it is TRUE for.
Nothing here knows a queue or a subscription, and nothing is evaluated message by message.

The broker settles as follows what the specification leaves open, or leaves to the rules of Java:

*Unlike types.* A comparison of a string with a number, or of any other values of unlike types, is FALSE, and so is
its opposite: neither `name = 1` nor `name <> 1` selects a message whose name is a string, but `NOT (name = 1)` does.
Strings and booleans have no order, so `<` of two of them is FALSE too. IN, NOT IN, LIKE and NOT LIKE are FALSE for a
value that is not a string. Arithmetic with such a value is UNKNOWN, and so is a property that
stands alone as a condition, as in `NOT urgent`, and is not a boolean. Where the text itself shows that types cannot
fit (`'a' + 1`, `TRUE > 1`, `1 = 'a'`), it is refused.

*Numbers.* byte, short, int and long are calculated as long, float and double as double. A long that overflows wraps
around. Division of two longs drops the remainder, towards zero; by zero it is UNKNOWN. A double follows IEEE 754: by
zero it is infinite or not a number, and not-a-number is unequal to everything and in no order with anything. A long
that meets a double becomes a double, as in Java.

*Literals.* Every exact literal is a long, with L or without, so 0xFFFFFFFF is 4294967295 and 0xFFFFFFFFFFFFFFFF is
-1. Decimal, hexadecimal, octal (leading 0) and binary (0b) are read, with `_` between digits; approximate literals
as in Java, hexadecimal ones too. Values out of range are refused. A number and a word need a space between them.

*Names.* Letters and digits as Java has them, without the invisible characters that Java ignores.

*LIKE.* `_` is one character of Unicode, whatever its length in UTF-8 or UTF-16. The escape character stands before
`_`, `%` or itself, and nowhere else.

*Conditions as values.* A condition in brackets is a boolean and can be compared: `(a > 1) = (b > 1)`.
"""

from mqlab.broker.core.selectors.errors import BadSelectorError
from mqlab.broker.core.selectors.selector import Selector, compile_selector

__all__ = ["BadSelectorError", "Selector", "compile_selector"]
