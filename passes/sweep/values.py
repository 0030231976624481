"""Parser of value lists: `4:32:4`, `0.1:0.9:0.1`, `4, 8, 12…32`, `l1, random`, `on, off`."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from espalier.model.errors import OptionsError
from espalier.model.patterns import comma_parts

MAX_VALUES = 1000
DIGITS = 30  # maximum exponent of a number, base 10
WORDS: dict[str, bool] = {"on": True, "off": False, "yes": True, "no": False, "true": True, "false": False}
DOTS = re.compile(r"…|\.{3}")


def parse_values(text: str, once: bool = True) -> tuple[Any, ...]:
    """The values of `text` in order; `once`: without duplicates. Raises OptionsError."""
    values: list[Any] = []
    for part in _filled_in([p.strip() for p in comma_parts(text) if p.strip()], text):
        values += _range(part, text) if _is_range(part) else [parse_value(part)]
    if not values:
        raise OptionsError("The list of values is empty.", "Write 4, 8, 16 or a range such as 0.1:0.9:0.1.")
    if len(values) > MAX_VALUES:
        raise _too_many(len(values))
    return tuple(dict.fromkeys(values)) if once else tuple(values)


def parse_value(text: str) -> Any:
    """A number, a boolean for `on` or `off`, otherwise the text."""
    word = text.strip().strip("'\"").replace("−", "-")
    if word.lower() in WORDS:
        return WORDS[word.lower()]
    if word[:1].isalpha():  # nan and inf are texts
        return word
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def values_text(values: tuple[Any, ...]) -> str:
    """The values as text for `parse_values`."""
    return ", ".join(value_text(v) for v in values)


def value_text(value: Any) -> str:
    """One value as text."""
    if value is None:
        return "float"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _filled_in(parts: list[str], text: str) -> list[str]:
    """`4, 8, 12…32` → 4, 8, 12:32:4; the step is the difference of the two numbers before the dots, or 1."""
    done: list[str] = []
    for part in _joined(parts):
        ends = [e.strip() for e in DOTS.split(part)]
        if len(ends) == 1 or part[:1].isalpha():
            done.append(part)
        elif len(ends) == 2 and all(ends):
            before = done[-1] if done else ""
            step = _number(ends[0], text) - _number(before, text) if before else Decimal(1)
            done.append(f"{ends[0]}:{ends[1]}:{step}")
        else:
            raise OptionsError(f"{part!r} is not a range.", "Write 4, 8…32 or 4:32:4.")
    return done


def _joined(parts: list[str]) -> list[str]:
    """Join `12, …, 32` to `12…32`."""
    first, *others = (p.strip() for p in DOTS.split(",".join(parts)))
    sides = [first, *(p.removeprefix(",") for p in others)]
    text = "…".join([*(p.removesuffix(",") for p in sides[:-1]), sides[-1]])
    return [p.strip() for p in comma_parts(text) if p.strip()]


def _is_range(part: str) -> bool:
    return ":" in part and not part[:1].isalpha()


def _range(part: str, text: str) -> list[Any]:
    """`low:high` or `low:high:step`, including both ends if the step reaches them."""
    numbers = [_number(p, text) for p in part.split(":")]
    if len(numbers) not in (2, 3):
        raise OptionsError(f"{part!r} is not a range.", "Write low:high:step, such as 0.1:0.9:0.1.")
    low, high = numbers[:2]
    step = numbers[2] if len(numbers) == 3 else Decimal(1)
    if not step or (high - low) / step < 0:
        raise OptionsError(f"{part!r} is empty: its step is {step}.", "Write low:high:step, such as 4:32:4.")
    count = int((high - low) / step) + 1
    if count > MAX_VALUES:
        raise _too_many(count)
    whole = all(n == n.to_integral_value() and "." not in str(n) for n in (low, step))
    return [(int if whole else float)(low + i * step) for i in range(count)]


def _number(text: str, whole: str) -> Decimal:
    try:
        number = Decimal(text.strip().replace("−", "-"))
    except InvalidOperation as error:
        raise OptionsError(f"{text.strip()!r} in {whole!r} is not a number.", "Write 4:32:4 or 4, 8, 16.") from error
    if not number.is_finite():
        raise OptionsError(f"{text.strip()!r} in {whole!r} is not finite.", "Write 4:32:4 or 4, 8, 16.")
    if number and abs(number.adjusted()) > DIGITS:
        raise OptionsError(f"{text.strip()[:40]!r} in {whole[:40]!r} is out of range.", "Write 4:32:4 or 4, 8, 16.")
    return number


def _too_many(count: int) -> OptionsError:
    return OptionsError(f"The list has {count} values.", f"Use a larger step: the maximum is {MAX_VALUES}.")
