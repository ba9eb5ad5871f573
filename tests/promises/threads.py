# SPDX-License-Identifier: Apache-2.0
"""Threads of tests, which all end before Python exits: it can crash while a daemon thread runs."""
import http.server
import threading


def in_thread(test, function):
    """Runs it beside the test. A cleanup that is added later makes the function end."""
    thread = threading.Thread(target=function)
    thread.start()
    test.addCleanup(thread.join)


class HttpServer(http.server.ThreadingHTTPServer):
    """Serves from the start until stop(), in threads of its own."""
    daemon_threads = False

    def __init__(self, address, handler):
        super().__init__(address, handler)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def stop(self):
        self.shutdown()
        self.thread.join()
        self.stopping.set()
        self.cut_connections()
        # Joins the threads of connections.
        self.server_close()

    def cut_connections(self):
        """Makes the threads of connections end that would not end soon."""
