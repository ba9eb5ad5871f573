# SPDX-License-Identifier: Apache-2.0
"""What the server refuses, with the code and the text that the client gets."""
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 406: "NotAcceptable",
           409: "Conflict", 410: "Expired", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests",
           500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


class Refusal(Exception):
    """`place`: of resources.py, of the object that the refusal is about."""

    def __init__(self, code, message, reason=None, field=None, place=None):
        super().__init__(message)
        self.code, self.message, self.reason, self.field = code, message, reason or REASONS.get(code, "Unknown"), field
        self.place = place
        self.causes = None  # in place of that of the field

    def status(self):
        """The object that an API server answers with."""
        details = {}
        if self.place:
            resource = self.place.resource
            details = {"name": self.place.name or "", "group": resource.group, "kind": resource.plural}
        if self.field:
            details["causes"] = [{"message": self.message, "field": self.field}]
        if self.causes:
            details["causes"] = self.causes
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
                "reason": self.reason, "code": self.code, **({"details": details} if details else {})}


def read_number(name, text):
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refusal(400, f"{name}: Invalid value: {text[:40]!r}: must be a number that is not negative")
    return int(text)


def invalid(path, what):
    """The error of a field."""
    return Refusal(422, f"{path}: {what}", field=path)
