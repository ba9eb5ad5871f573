# SPDX-License-Identifier: Apache-2.0
"""Wanting something to be so, now or before long. Passing the limit means that it never comes."""
import time

LIMIT = 60.0


class Failure(Exception):
    pass


def check(truth, what):
    if not truth:
        raise Failure(what)


def until(condition, what):
    end = time.monotonic() + LIMIT
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"waited {LIMIT:.0f} s in vain for: {what() if callable(what) else what}")
        time.sleep(0.05)
