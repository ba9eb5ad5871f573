# SPDX-License-Identifier: Apache-2.0
"""The interfaces that stay as they are in all releases 1.x: keys of the configuration, members of JSON, metrics and messages.

Each is a table: names, and a set of words about each. They are read from the pages that other tests compare with the programs, and from
the sources. A release stores its tables in a folder of its own (make-interfaces), and test_interfaces.py compares them with those of now.
"""
import glob
import os
import re

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
HEAD = "# SPDX-License-Identifier: Apache-2.0\n"


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def rows(text):
    """The cells of the rows of tables whose first cell is a name, without the backticks."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) > 1 and re.fullmatch(r"`[^`]+`", cells[0]):
            yield cells[0].strip("`"), *cells[1:]


def accepted(value):
    """Which values a key accepts: words, true, false, or kinds without their bounds."""
    value = re.sub(r"; (only for|a string stands for).*|, (at most|from|template|with the keys).*", "", value)
    if "`" in value:
        return set(re.findall(r"`([^`]+)`", value)) | set(re.findall(r"\bgroup\b", value))
    return set(re.sub(r" of [a-z]+$", "", kind) if kind.startswith("number of") else kind for kind in value.split(" or "))


def keys():
    """The keys of the configuration and, with "${", the variables: what each accepts."""
    found, before = {}, ""
    for section in re.split(r"^(?=##+ )", read("docs/configuration.md"), flags=re.M)[1:]:
        heading = section.split("\n", 1)[0]
        named = re.search(r"`(.*)`", heading)
        if heading.startswith("## "):
            before = {"## Keys of a resource": "resource."}.get(heading, f"driver {named[1]}: " if named else "")
        here = f"{before}{named[1]}." if heading.startswith("### ") else before
        for name, value, *_ in rows(section):
            found[here + name] = {"variable"} if name.startswith("${") else accepted(value)
    return found


def members_by_command():
    """Types of members by their paths, by the headlines of docs/json.md. A row may name several members, and refer to another heading."""
    parts = re.split(r"^## ", read("docs/json.md"), flags=re.M)[1:]
    found, everything = {}, {}
    for part in parts:
        members = found.setdefault(part.split("\n", 1)[0], {"version": "number"})
        # A heading has the beginning of the paths below it.
        for section in re.split(r"^### ", part, flags=re.M):
            before = re.match(r"`([^`]+)`\n", section)
            for names, meaning in re.findall(r"^\| (`.*?`) \| (.*) \|$", section, re.M):
                kind = re.match(r"((?:number|boolean)(?: or null)?): ", meaning)
                other = re.match(r"as in `([^`]+)`$", meaning)
                for name in re.findall(r"`([^`]+)`", names):
                    path = f"{before[1]}.{name}" if before else name
                    members[path] = everything[path] = everything[f"{other[1]}.{name}"] if other else kind[1] if kind else "string"
    return found


def members():
    """The members of JSON by command: their types."""
    return {f"{command}: {path}": set(kind.split(" or ")) for command, found in members_by_command().items() for path, kind in found.items()}


def metrics():
    """The metrics: their types and labels."""
    sources = "".join(read(os.path.relpath(path, ROOT)) for path in glob.glob(ROOT + "/exporter/families*.c"))
    labels = {row[0]: set(re.findall(r"`(\w+)`", row[2])) for row in rows(read("docs/metrics.md")) if row[0].startswith("devplugd_")}
    return {name: {kind} | labels[name] for name, kind in re.findall(r'"(devplugd_\w+)",\s*"(\w+)"', sources)}


def messages():
    """The MESSAGE_IDs: their kinds. With "field", the fields of the records."""
    found = {number: {kind} for kind, number in re.findall(r"^\| (\w+) \| `([0-9a-f]{32})` \|", read("docs/metrics.md"), re.M)}
    return found | {name: {"field"} for name in re.findall(r'"((?:DEVPLUGD|CONFIG)_\w+)=%', read("common/log.c"))}


TABLES = {"keys": keys, "members": members, "metrics": metrics, "messages": messages}
# Words may be added in these tables: a key may accept more. Programs that read the others expect no more.
MAY_GROW = ("keys",)


def write(folder):
    os.makedirs(folder, exist_ok=True)
    for name, table in TABLES.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(HEAD + "".join(f"{key}\t{', '.join(sorted(words))}\n" for key, words in sorted(table().items())))


def stored(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return {key: set(words.split(", ")) for key, words in lines}


def broken(name, before, now):
    """What a table no longer keeps of an earlier one, in words."""
    for key, words in sorted(before.items()):
        if key not in now:
            yield f"{name}: {key} was removed"
        elif not (words <= now[key] if name in MAY_GROW else words == now[key]):
            yield f"{name}: {key} was {', '.join(sorted(words))}, and is {', '.join(sorted(now[key]))}"
