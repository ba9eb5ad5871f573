# SPDX-License-Identifier: Apache-2.0
"""Quantities as text: read as exact numbers, and written in the API server's form. It stores "1024Mi" as "1Gi", and "1000" as
"1k", so that a driver that compares text never ends to write."""
import fractions
import re

FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,2}))?$")
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def parse(text):
    """The number. ValueError: not a quantity."""
    return read(text)[0]


def read(text):
    """The number, and the kind of its suffix."""
    match = FORM.match(str(text)) if isinstance(text, str) or type(text) is int else None
    if not match:
        raise ValueError(f"{text!r} is not a quantity")
    sign, digits, suffix, exponent = match.groups()
    number = fractions.Fraction(digits) * (-1 if sign == "-" else 1)
    if suffix in BINARY:
        return number * 1024 ** BINARY[suffix], "binary"
    if exponent is not None:
        return number * fractions.Fraction(10) ** int(exponent), "exponent"
    return number * fractions.Fraction(10) ** DECIMAL[suffix or ""], "decimal"


def canonical(text):
    """The form in which a server stores it. What is less than 1n is rounded up."""
    number, kind = read(text)
    return write(number, kind)


def write(number, kind="decimal"):
    if kind == "binary" and number.denominator == 1 and abs(number) >= 1024:
        power = 0
        while power < 6 and number % 1024 == 0:
            number, power = number / 1024, power + 1
        return f"{number}{['', *BINARY][power]}"
    number = fractions.Fraction(-(-number * 10 ** 9 // 1), 10 ** 9)
    power = -9
    number *= 10 ** 9
    while number and power < 18 and number % 1000 == 0:
        number, power = number / 1000, power + 3
    if number == 0:
        power = 0
    if kind == "exponent":
        return f"{number}" + (f"e{power}" if power else "")
    return f"{number}{next(name for name, value in DECIMAL.items() if value == power)}"
