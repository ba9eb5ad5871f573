# SPDX-License-Identifier: Apache-2.0
"""Serves the API by TLS, with client certificates and tokens, and by a socket for administrators of this machine. Each connection
has a thread, and with HTTP/2 each request, too; stop() joins them all."""
import contextlib
import http.server
import json
import os
import select
import socket
import socketserver
import ssl
import sys
import threading
import traceback

from . import nghttp2
from .api import Answer, Request, Watch
from .authorizer import ADMINISTRATOR, User, user_of
from .refusal import Refusal, read_number

BODY_MAX = 4 << 20
IDLE_SECONDS = 60
HANG_SECONDS = 30


class Stoppable:
    """A server in a thread of its own, from the start until stop()."""
    daemon_threads = False
    allow_reuse_address = True

    def begin(self):
        self.stopping = threading.Event()
        self.connections, self.guard = set(), threading.Lock()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    @contextlib.contextmanager
    def connected(self, connection):
        """Cuts the connection at the stop. Yields whether it may be served."""
        with self.guard:
            self.connections.add(connection)
        try:
            yield not self.stopping.is_set()
        finally:
            with self.guard:
                self.connections.discard(connection)

    def stop(self):
        """Cuts all connections."""
        self.shutdown()
        self.thread.join()
        self.stopping.set()
        with self.guard:
            connections = list(self.connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # Joins the threads of connections.
        self.server_close()

    def handle_error(self, request, client_address):
        """A connection that ends early is the client's matter, all else is a fault of this program."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class TlsServer(Stoppable, http.server.ThreadingHTTPServer):
    """`certificate`: the files of the server's certificate and its key."""

    def __init__(self, address, api, authority, certificate, http2=True):
        self.api = api
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        self.context.load_verify_locations(authority.certificate)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.set_alpn_protocols(["h2", "http/1.1"] if http2 and nghttp2.LIBRARY else ["http/1.1"])
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, Handler)
        self.begin()

    def server_bind(self):
        # http.server's own asks for the name of the host.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def finish_request(self, request, client_address):
        # In the connection's own thread, so that a slow handshake does not delay others.
        request.settimeout(IDLE_SECONDS)
        # As Go's servers do; otherwise an answer may wait 40 ms for the client's acknowledgement.
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), self.context.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False) as wrapped, self.connected(wrapped) as serve:
            if serve:
                wrapped.do_handshake()
                if wrapped.selected_alpn_protocol() == "h2":
                    Connection(wrapped, self).serve()
                else:
                    Handler(wrapped, client_address, self)


class Exchange:
    """A request and its answer. A version of HTTP adds peer_certificate(), read_data(), begin_answer(), write(), end_answer() and
    cut()."""

    def user(self):
        """None: the client has not proven who it is."""
        authorization = self.headers.get("Authorization", "")
        if authorization.startswith("Bearer "):
            return self.server.api.tokens.get(authorization[7:])
        certificate = self.peer_certificate()
        if not certificate:
            return None
        names = [pair for part in certificate["subject"] for pair in part]
        return User(next((value for key, value in names if key == "commonName"), ""),
                    tuple(value for key, value in names if key == "organizationName"))

    def answer(self, code, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.begin_answer(code, [("Content-Type", "application/json"), ("Content-Length", str(len(data))), *headers])
        self.write(data)
        self.end_answer()

    def refuse(self, code, message, headers=()):
        """What is refused before the API is asked."""
        self.server.api.note(self.command, self.path, code)
        self.answer(code, Refusal(code, message).status(), headers)

    def read_body(self):
        data = self.read_data()
        try:
            return json.loads(data) if data else None
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is not valid JSON: {error}") from error

    def handle_request(self):
        try:
            body = self.read_body()
        except Refusal as refusal:
            self.refuse(refusal.code, refusal.message)
            return
        fault, retry_after = self.server.api.find_fault(self.command, self.path)
        if isinstance(fault, float):
            self.server.stopping.wait(fault)
            fault = None
        if fault is not None:
            self.fail(fault, retry_after)
            return
        user = self.user()
        if user is None:
            self.refuse(401, "Unauthorized")
            return
        content = self.headers.get("Content-Type") or "application/json"
        answer = self.server.api.serve(user, Request(self.command, self.path, body, content))
        if isinstance(answer, Watch):
            self.send_watch(answer)
        else:
            self.answer(*answer)

    def fail(self, fault, retry_after):
        if fault in ("hang", "close"):
            self.server.api.note(self.command, self.path, 0)
            self.server.stopping.wait(HANG_SECONDS if fault == "hang" else 0)
            self.cut()
        elif fault in ("empty", "garbage"):
            self.server.api.note(self.command, self.path, 200)
            self.answer(200, b"" if fault == "empty" else b"<html>not the API server</html>")
        else:
            self.refuse(fault, "as the test demands", [("Retry-After", str(retry_after))] if fault == 429 else ())

    def is_over(self):
        """Whether a watch has to end."""
        return self.server.stopping.is_set()

    def send_watch(self, watch):
        self.begin_answer(200, [("Content-Type", "application/json")])
        for lines in watch.lines(self.is_over):
            self.write(b"".join(lines))
        self.end_answer()


class Handler(Exchange, http.server.BaseHTTPRequestHandler):
    """HTTP/1.1."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def peer_certificate(self):
        return self.connection.getpeercert()

    def read_data(self):
        # Where the next request begins is unknown unless the whole body has been read.
        self.close_connection, before = True, self.close_connection
        size = read_number("Content-Length", self.headers.get("Content-Length") or "0")
        if self.headers.get("Transfer-Encoding") or size > BODY_MAX:
            raise Refusal(413 if size > BODY_MAX else 411, "the request needs a Content-Length of at most 4 MiB")
        data = self.rfile.read(size)
        self.close_connection = before
        return data

    def begin_answer(self, code, fields):
        self.chunked = not any(name == "Content-Length" for name, _ in fields)
        self.send_response(code)
        for name, value in (*fields, *([("Transfer-Encoding", "chunked")] if self.chunked else [])):
            self.send_header(name, value)
        self.end_headers()

    def write(self, data):
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    def end_answer(self):
        if self.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def cut(self):
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = Exchange.handle_request


class Connection:
    """An HTTP/2 connection. Only its own thread uses the socket and the session; the requests have threads of their own, because
    some wait, and pass what they have to send as functions."""

    def __init__(self, socket_, server):
        self.socket, self.server, self.certificate = socket_, server, socket_.getpeercert()
        self.streams, self.todo, self.guard = {}, [], threading.Lock()
        self.wake, self.waker = socket.socketpair()
        self.session = nghttp2.Session(self.begin, self.close, BODY_MAX)
        self.broken = False

    def begin(self, request):
        stream = self.streams[request.number] = Stream(self, request)
        stream.thread.start()

    def close(self, request):
        stream = self.streams.pop(request.number, None)
        if stream:
            stream.closed = True

    def post(self, function, *words):
        """Has the connection's thread call a function."""
        with self.guard:
            self.todo.append((function, words))
            if self.waker.fileno() >= 0 and len(self.todo) == 1:
                self.waker.send(b"\0")

    def do_posted(self):
        with self.guard:
            todo, self.todo = self.todo, []
        for function, words in todo:
            function(*words)

    def await_socket(self, event):
        """Returns whether something has happened within the time for which a connection may be idle."""
        poll = select.poll()
        poll.register(self.socket, event)
        poll.register(self.wake, select.POLLIN)
        found = dict(poll.poll(IDLE_SECONDS * 1000))
        if self.wake.fileno() in found:
            self.wake.recv(4096)
        return bool(found) or bool(self.streams)

    def send(self, data):
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.socket.send(rest):]
            except ssl.SSLWantWriteError:
                select.select([], [self.socket], [], IDLE_SECONDS)

    def receive(self):
        """Returns whether the peer is still there."""
        try:
            while data := self.socket.recv(1 << 16):
                if not self.session.receive(data):
                    return False
        except ssl.SSLWantReadError:
            return True
        return False

    def cut(self):
        self.broken = True

    def serve(self):
        self.socket.setblocking(False)
        try:
            while self.receive() and not self.broken:
                self.do_posted()
                self.send(self.session.take_output())
                if self.broken or not self.session.is_open() or not self.todo and not self.await_socket(select.POLLIN):
                    break
        finally:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
            self.end()

    def end(self):
        threads = [stream.thread for stream in self.streams.values()]
        for stream in self.streams.values():
            stream.closed = True
        for thread in threads:
            thread.join()
        self.session.free()
        with self.guard:
            self.wake.close()
            self.waker.close()


class Stream(Exchange):
    """A request of an HTTP/2 connection."""

    def __init__(self, connection, request):
        self.owner, self.request, self.closed = connection, request, False
        self.server, self.headers = connection.server, request.fields
        self.command, self.path = request.fields.get(":method", ""), request.fields.get(":path", "")
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            if self.command in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                self.handle_request()
            else:
                self.refuse(501, f"Unsupported method ({self.command!r})")
        except Exception:
            traceback.print_exc()
            self.owner.post(self.owner.cut)

    def peer_certificate(self):
        return self.owner.certificate

    def read_data(self):
        if len(self.request.body) > BODY_MAX:
            raise Refusal(413, "the request needs a Content-Length of at most 4 MiB")
        return bytes(self.request.body)

    def begin_answer(self, code, fields):
        self.owner.post(self.owner.session.begin_answer, self.request, code, fields)

    def write(self, data):
        self.owner.post(self.owner.session.add_answer, self.request, data, False)

    def end_answer(self):
        self.owner.post(self.owner.session.add_answer, self.request, b"", True)

    def is_over(self):
        return self.closed or self.server.stopping.is_set()

    def cut(self):
        if not self.closed:
            self.owner.post(self.owner.cut)


class ControlServer(Stoppable, socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A socket in the file system. A connection is one request, a line {"method": ..., "path": ..., "body": ...}, and its answer,
    {"code": ..., "body": ...}. It is an administrator's, and faults do not apply to it; with "user": NAME, it is that user's, and
    faults apply."""

    def __init__(self, path, api):
        self.api = api
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        before = os.umask(0o077)
        try:
            super().__init__(path, ControlHandler)
        finally:
            os.umask(before)
        self.begin()


class ControlHandler(socketserver.StreamRequestHandler):
    def handle(self):
        with self.server.connected(self.connection) as serve:
            if serve:
                answer = self.serve(self.rfile.readline(BODY_MAX))
                self.wfile.write(json.dumps({"code": answer.code, "body": answer.body}).encode() + b"\n")

    def serve(self, line):
        try:
            found = json.loads(line)
            request = Request(found["method"], found["path"], found.get("body"), found.get("type", "application/json"))
            user = user_of(found["user"]) if "user" in found else ADMINISTRATOR
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return Answer(400, Refusal(400, f"a line is a JSON object with method, path and, for some, body: {error}").status())
        fault = self.server.api.find_fault(request.method, request.path)[0] if user is not ADMINISTRATOR else None
        if fault is not None:
            # Without a connection to cut or to delay, each is a failure.
            code = fault if isinstance(fault, int) else 503
            self.server.api.note(request.method, request.path, code)
            return Answer(code, Refusal(code, "as the test demands").status())
        answer = self.server.api.serve(user, request)
        if isinstance(answer, Watch):
            return Answer(400, Refusal(400, "a watch needs a connection by TLS").status())
        if isinstance(answer.body, bytes):
            return answer._replace(body=answer.body.decode())
        return answer
