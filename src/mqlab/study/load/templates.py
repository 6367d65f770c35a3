"""Bodies of messages that a template makes: a text with fields, in a file beside the study.

${number}                       the number of the message at its producer, from 0 on
${choice red|green|blue}        one of these texts
${random 1 to 100}              a whole number
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

_FIELD: Final = re.compile(r"\$\{([^}]*)\}")
_RANDOM: Final = re.compile(r"random (\d{1,15}) to (\d{1,15})", re.ASCII)
_FORMS: Final = "write ${number}, ${choice red|green} or ${random 1 to 100}"
# The digits of a number: fewest, most and usual.
_DIGITS: Final = (1, 12, 5)


@dataclass(frozen=True)
class TemplateField:
    """A text of `choices`; without them a number: drawn from `first` to `last`, or that of the message."""

    choices: tuple[str, ...] = ()
    first: int = 0
    last: int = -1

    @property
    def is_number(self) -> bool:
        """Whether it is the number of the message."""
        return not self.choices and self.last < self.first

    @property
    def lengths(self) -> tuple[int, int, float]:
        """In bytes: the fewest, the most, and about the mean."""
        if self.is_number:
            return _DIGITS
        texts = self.choices or (str(self.first), str(self.last))
        lengths = [len(text.encode()) for text in texts]
        return min(lengths), max(lengths), fmean(lengths if self.choices else lengths[-1:])

    def text(self, number: int, drawn: float) -> str:
        """`drawn` is from 0 to below 1."""
        if self.is_number:
            return str(number)
        if self.choices:
            return self.choices[int(drawn * len(self.choices))]
        return str(self.first + int(drawn * (self.last - self.first + 1)))


@dataclass(frozen=True)
class Template:
    """Texts, with a field after each but the last."""

    texts: tuple[str, ...]
    fields: tuple[TemplateField, ...]

    @property
    def lengths(self) -> tuple[int, int, float]:
        """In bytes: the fewest, the most, and about the mean."""
        plain = sum(len(text.encode()) for text in self.texts)
        lengths = [field.lengths for field in self.fields]
        fewest, most = sum(least for least, _, _ in lengths), sum(most for _, most, _ in lengths)
        return plain + fewest, plain + most, plain + sum(mean for _, _, mean in lengths)

    def render(self, number: int, drawn: Sequence[float]) -> bytes:
        """The body of a message; `drawn` has a number from 0 to below 1 for each field."""
        parts = [self.texts[0]]
        for field, value, text in zip(self.fields, drawn, self.texts[1:], strict=True):
            parts += [field.text(number, value), text]
        return "".join(parts).encode()


def parse_template(text: str) -> Template:
    """Raises ValueError."""
    texts, fields, end = [], [], 0
    for match in _FIELD.finditer(text):
        texts.append(text[end : match.start()])
        fields.append(_field(match[1]))
        end = match.end()
    return Template((*texts, text[end:]), tuple(fields))


def _field(text: str) -> TemplateField:
    if text == "number":
        return TemplateField()
    word, _, rest = text.partition(" ")
    if word == "choice" and len(choices := tuple(rest.split("|"))) > 1:
        return TemplateField(choices)
    if (match := _RANDOM.fullmatch(text)) and int(match[1]) < int(match[2]):
        return TemplateField(first=int(match[1]), last=int(match[2]))
    raise ValueError(f"'${{{text[:80]}}}' is not a field; {_FORMS}")
