# SPDX-License-Identifier: Apache-2.0
"""Threads of tests, which all end before Python exits: it can crash while a daemon thread runs."""
import http.server
import threading

from api_server import Stoppable


def in_thread(test, function):
    """Runs it beside the test. A cleanup that is added later makes the function end."""
    thread = threading.Thread(target=function)
    thread.start()
    test.addCleanup(thread.join)


class HttpServer(Stoppable, http.server.ThreadingHTTPServer):
    """Serves from the start until stop(), in threads of its own."""

    def __init__(self, address, handler):
        super().__init__(address, handler)
        self.begin()
