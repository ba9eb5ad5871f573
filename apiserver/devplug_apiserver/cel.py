# SPDX-License-Identifier: Apache-2.0
"""A subset of CEL for device selectors, which devplug-apiserver(1) lists. What is outside of it is an error when the expression is
read (UnknownCel), never a wrong result.

A missing attribute is an error when a device is examined (CelError), which ends the allocation, as in the scheduler. && and ||
are decided by their other side if they can be."""
import fractions
import functools
import re

from . import quantity

TOKEN = re.compile(r"""\s*(?:(?P<number>\d+)(?![\w.]) | (?P<text>r?"(?:[^"\\\n]|\\.)*" | r?'(?:[^'\\\n]|\\.)*') |
                       (?P<name>[A-Za-z_]\w*) | (?P<sign>&&|\|\||==|!=|<=|>=|\.\?|[-+!<>()\[\].,?:*/%{}]) | (?P<end>$))""", re.X)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
DEVICE_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")


class InvalidCel(Exception):
    """The expression is not CEL, or its result is not a boolean."""


class UnknownCel(Exception):
    """It may be CEL, but is not in the subset."""


class CelError(Exception):
    """The expression fails for a device."""


class Version(tuple):
    """A semantic version, which is compared by its precedence."""

    @classmethod
    def parse(cls, text):
        match = re.match(r"(\d+)\.(\d+)\.(\d+)(?:-([^+]*))?(?:\+.*)?$", text)
        if not match:
            raise CelError(f"{text!r} is not a semantic version")
        pre = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in (match[4] or "").split(".") if part]
        return cls((*map(int, match.groups()[:3]), not pre, *pre))


class Domains(dict):
    """Attributes or capacities by domain. A domain without any is empty, and no error."""

    def __missing__(self, key):
        return {}


class Nothing:
    """An optional value that is not there."""


class Quantity(fractions.Fraction):
    pass


class Device:
    """What an expression sees of a device."""

    def __init__(self, driver, device):
        self.driver = driver
        self.attributes, self.capacity = Domains(), Domains()
        self.allowMultipleAllocations = bool(device.get("allowMultipleAllocations"))
        for name, value in device.get("attributes", {}).items():
            self.add(self.attributes, name, self.convert(value))
        for name, value in device.get("capacity", {}).items():
            self.add(self.capacity, name, Quantity(quantity.parse(value["value"])))

    def add(self, domains, name, value):
        domain, _, identifier = name.rpartition("/")
        domains.setdefault(domain or self.driver, {})[identifier] = value

    @staticmethod
    def convert(value):
        kind, content = next(iter(value.items()))
        if kind == "version":
            return Version.parse(content)
        if kind == "versions":
            return [Version.parse(text) for text in content]
        return content


def kind_of(value):
    for kind in (bool, int, str, Version, Quantity, list, dict):
        if isinstance(value, kind):
            return kind
    return type(value)


# --- reading

def tokens(text):
    at, found = 0, []
    while True:
        match = TOKEN.match(text, at)
        if not match:
            raise UnknownCel(f"{text[at:].strip()[:20]!r}")
        at = match.end()
        kind = match.lastgroup
        found.append((kind, match[kind]))
        if kind == "end":
            return found


def unquote(text):
    if text[0] == "r":
        return text[2:-1]

    def replace(match):
        if match[1] not in ESCAPES:
            raise UnknownCel(f"the escape \\{match[1]}")
        return ESCAPES[match[1]]
    return re.sub(r"\\(.)", replace, text[1:-1])


class Parser:
    """Makes a function of the device of each part."""

    # From the weakest to the strongest.
    BINARY = [("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in")]

    def __init__(self, text):
        self.tokens, self.at = tokens(text), 0

    def peek(self):
        return self.tokens[self.at][1]

    def take(self, *wanted):
        if self.peek() in wanted and self.tokens[self.at][0] in ("sign", "name"):
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def expect(self, sign):
        if not self.take(sign):
            raise InvalidCel(f"{sign!r} is missing before {self.peek()!r}")

    def name(self):
        kind, text = self.tokens[self.at]
        if kind != "name":
            raise InvalidCel(f"a name is missing before {text!r}")
        self.at += 1
        return text

    def parse(self):
        value = self.binary(0)
        kind, text = self.tokens[self.at]
        if kind != "end":
            raise UnknownCel(f"{text!r}") if text in tuple("?+-*/%:") else InvalidCel(f"{text!r} is not expected")
        return value

    def binary(self, level):
        if level == len(self.BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while operator := self.take(*self.BINARY[level]):
            left = functools.partial(OPERATORS[operator], left, self.binary(level + 1))
        return left

    def unary(self):
        if self.take("!"):
            return functools.partial(negate, self.unary())
        if self.take("-"):
            kind, text = self.tokens[self.at]
            if kind != "number":
                raise UnknownCel("'-' before anything but a number")
            self.at += 1
            return constant(-int(text))
        return self.postfix(self.primary())

    def postfix(self, value):
        while sign := self.take(".", ".?", "["):
            if sign == "[":
                optional, key = self.take("?"), self.binary(0)
                self.expect("]")
                value = functools.partial(index_optional if optional else index, value, key)
                continue
            name = self.name()
            if sign == "." and self.take("("):
                value = self.method(value, name)
            else:
                value = functools.partial(index_optional if sign == ".?" else index, value, constant(name))
        return value

    def arguments(self):
        found = []
        while not self.take(")"):
            if found:
                self.expect(",")
            found.append(self.binary(0))
        return found

    def method(self, value, name):
        if name not in METHODS:
            raise UnknownCel(f"the method {name}()")
        found = self.arguments()
        method, count = METHODS[name]
        if len(found) != count:
            raise InvalidCel(f"{name}() takes {count} arguments")
        return functools.partial(method, value, *found)

    def primary(self):
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return constant(int(text))
        if kind == "text":
            return constant(unquote(text))
        if text == "(":
            value = self.binary(0)
            self.expect(")")
            return value
        if text == "[":
            return self.list()
        if text == "{":
            raise UnknownCel("a map")
        if kind != "name":
            raise InvalidCel("it ends too early" if kind == "end" else f"{text!r} is not expected")
        if text in ("true", "false"):
            return constant(text == "true")
        if text == "device":
            return self.device_field()
        if text in FUNCTIONS and self.take("("):
            found = self.arguments()
            if len(found) != 1:
                raise InvalidCel(f"{text}() takes 1 argument")
            return functools.partial(FUNCTIONS[text], found[0])
        raise UnknownCel(f"{text!r}")

    def list(self):
        items = []
        while not self.take("]"):
            if items:
                self.expect(",")
            items.append(self.binary(0))
        return lambda device: [item(device) for item in items]

    def device_field(self):
        self.expect(".")
        name = self.name()
        if name not in DEVICE_FIELDS:
            raise UnknownCel(f"device.{name}")
        return lambda device: getattr(device, name)


# --- evaluation: each part is a function of the device

def constant(value):
    return lambda device: value


def boolean(value, device):
    found = value(device)
    if not isinstance(found, bool):
        raise CelError("no such overload: a boolean is needed")
    return found


def evaluate(value, device):
    """The whole expression."""
    try:
        return boolean(value, device)
    except RecursionError:
        raise CelError("devplug-apiserver does not know an expression of so many levels") from None


def negate(value, device):
    return not boolean(value, device)


def either(decides, left, right, device):
    """&& and ||: a side that decides hides the error of the other one."""
    try:
        if boolean(left, device) is decides:
            return decides
    except CelError:
        if boolean(right, device) is decides:
            return decides
        raise
    return boolean(right, device)


def equal(left, right, device):
    a, b = left(device), right(device)
    return kind_of(a) is kind_of(b) and a == b


def compare(test, left, right, device):
    a, b = left(device), right(device)
    if kind_of(a) is not kind_of(b) or kind_of(a) not in (int, str, bool):
        raise CelError("no such overload: values of these types are not compared with < or >")
    return test(a, b)


def contained(left, right, device):
    a, b = left(device), right(device)
    if isinstance(b, dict):
        return a in b
    if isinstance(b, list):
        return any(kind_of(a) is kind_of(item) and a == item for item in b)
    raise CelError("no such overload: \"in\" needs a list or a map")


OPERATORS = {
    "&&": functools.partial(either, False), "||": functools.partial(either, True),
    "==": equal, "!=": lambda left, right, device: not equal(left, right, device),
    "<": functools.partial(compare, lambda a, b: a < b), "<=": functools.partial(compare, lambda a, b: a <= b),
    ">": functools.partial(compare, lambda a, b: a > b), ">=": functools.partial(compare, lambda a, b: a >= b),
    "in": contained,
}


def index(value, key, device):
    found, name = value(device), key(device)
    if found is Nothing:
        return Nothing
    if isinstance(found, dict):
        try:
            return found[name]
        except KeyError:
            raise CelError(f"no such key: {name}") from None
    if isinstance(found, list) and type(name) is int:
        if 0 <= name < len(found):
            return found[name]
        raise CelError(f"index {name} is out of range")
    raise CelError(f"no such key: {name}")


def index_optional(value, key, device):
    found, name = value(device), key(device)
    if isinstance(found, dict) and (name in found or isinstance(found, Domains)):
        return found[name]
    return Nothing


def or_value(value, default, device):
    found = value(device)
    return default(device) if found is Nothing else found


def of_kind(kind, function):
    """A method of values of a type, with arguments of the same type."""
    def run(value, *arguments):
        device, parts = arguments[-1], (value, *arguments[:-1])
        found = [part(device) for part in parts]
        if any(kind_of(one) not in kind for one in found) or len({kind_of(one) for one in found}) != 1:
            raise CelError("no such overload")
        return function(*found)
    return run


def includes(value, item, device):
    found, wanted = value(device), item(device)
    values = found if isinstance(found, list) else [found]
    return any(kind_of(one) is kind_of(wanted) and one == wanted for one in values)


def matches(text, pattern):
    # RE2 and Python agree on these; what only one of them knows is refused.
    if re.search(r"\(\?(?!:)|\\[^\w.+*?()\[\]{}^$|/-]|\\[1-9pPCQE]", pattern):
        raise CelError(f"devplug-apiserver does not know all of the regular expression {pattern!r}")
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise CelError(f"{pattern!r}: {error}") from error


def size(value, device):
    found = value(device)
    if kind_of(found) not in (str, list, dict):
        raise CelError("no such overload: size()")
    return len(found)


def make_quantity(value, device):
    try:
        return Quantity(quantity.parse(value(device)))
    except ValueError as error:
        raise CelError(str(error)) from error


def make_version(value, device):
    return Version.parse(str(value(device)))


def has(value, device):
    try:
        return value(device) is not Nothing
    except CelError:
        return False


TEXT, ORDERED = (str,), (Version, Quantity)
METHODS = {
    "orValue": (or_value, 1), "includes": (includes, 1), "size": (size, 0),
    "startsWith": (of_kind(TEXT, str.startswith), 1), "endsWith": (of_kind(TEXT, str.endswith), 1),
    "contains": (of_kind(TEXT, lambda text, part: part in text), 1), "matches": (of_kind(TEXT, matches), 1),
    "lowerAscii": (of_kind(TEXT, str.lower), 0), "upperAscii": (of_kind(TEXT, str.upper), 0),
    "compareTo": (of_kind(ORDERED, lambda a, b: (a > b) - (a < b)), 1),
    "isGreaterThan": (of_kind(ORDERED, lambda a, b: a > b), 1), "isLessThan": (of_kind(ORDERED, lambda a, b: a < b), 1),
}
FUNCTIONS = {"quantity": make_quantity, "semver": make_version, "size": size, "has": has}


@functools.lru_cache(maxsize=1024)
def compile_expression(text):
    """A function of a Device. Its result is True or False, or it raises CelError."""
    try:
        return functools.partial(evaluate, Parser(text).parse())
    except RecursionError:
        raise UnknownCel("an expression of so many levels") from None
