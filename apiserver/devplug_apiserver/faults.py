# SPDX-License-Identifier: Apache-2.0
"""Failures on demand. A fault is a function of the method and the path of a request, which returns None, or what to do instead:
a status code, a word of ACTIONS, or, as a float, the seconds after which the request is served."""
import re
import threading

ACTIONS = ("hang", "close", "garbage", "empty")
MEMBERS = {"method": str, "path": str, "do": (str, int), "times": int, "retry_after": int}
LEAST = {"times": 1, "retry_after": 0}


class Fault:
    """One of a document: {"method": "PUT", "path": "resourceslices", "do": 409, "times": 3}. The path is a regular expression, and
    is searched for in the request's path with its query."""

    def __init__(self, document):
        if not isinstance(document, dict) or "do" not in document:
            raise ValueError("a fault is an object with the member \"do\"")
        for name, value in document.items():
            if name not in MEMBERS or not isinstance(value, MEMBERS[name]) or isinstance(value, bool):
                raise ValueError(f"a fault has no member {name} with the value {value!r}; members are {', '.join(MEMBERS)}")
        for name, least in LEAST.items():
            if document.get(name, least) < least:
                raise ValueError(f"the member {name} of a fault is at least {least}, and not {document[name]}")
        self.document = document
        self.action = self.read_action(document["do"])
        try:
            self.path = re.compile(document.get("path", ""))
        except re.error as error:
            raise ValueError(f"the path {document['path']!r} is not a regular expression: {error}") from error
        self.left, self.guard = document.get("times"), threading.Lock()

    @staticmethod
    def read_action(do):
        text = str(do)
        if re.fullmatch(r"[45]\d\d", text):
            return int(text)
        if text in ACTIONS:
            return text
        delay = re.fullmatch(r"delay:(\d+(?:\.\d+)?)", text)
        if delay:
            return float(delay[1])
        raise ValueError(f"a fault cannot do {do!r}: use a status code from 400 to 599, {', '.join(ACTIONS)}, or delay:SECONDS")

    def __call__(self, method, path):
        if self.document.get("method", method) != method or not self.path.search(path):
            return None
        # Connections have threads of their own.
        with self.guard:
            if self.left == 0:
                return None
            if self.left is not None:
                self.left -= 1
        return self.action

    def retry_after(self):
        return self.document.get("retry_after")
