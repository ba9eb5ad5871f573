# SPDX-License-Identifier: Apache-2.0
"""Compares what a page shows with what a command prints: "..." stands for any text, on a line of its own for any lines."""
import re


def commands(text):
    """Pairs of a command and what it prints."""
    for part in re.split(r"^[$#] ", text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def pattern(shown):
    """Columns are as wide as what is in them."""
    lines = []
    for line in shown.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            words = [".*".join(map(re.escape, word.split("..."))) for word in line.split()]
            lines.append(r"\s*" + r"\s+".join(words) + r"\s*?\n")
    return "".join(lines)
