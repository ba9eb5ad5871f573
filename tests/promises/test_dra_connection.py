# SPDX-License-Identifier: Apache-2.0
"""Connections to the API server: one for all requests and watches, which outlives watches, refused tokens and new certificates."""
import contextlib
import os
import socket
import threading
import unittest

from api_server import Authority, write_kubeconfig
from dra_node import DRIVER, DraTest
from node import until


class Proxy:
    """In front of a server. It stops to pass on bytes of the connections that are open at freeze(), and keeps them open."""

    def __init__(self, port):
        self.port, self.frozen, self.pairs = port, set(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.port))
                self.pairs.append((peer, server))
                for source, target in ((peer, server), (server, peer)):
                    self.threads.append(threading.Thread(target=self.copy, args=(source, target, peer)))
                    self.threads[-1].start()

    def copy(self, source, target, peer):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if peer not in self.frozen:
                    target.sendall(data)
        if peer not in self.frozen:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def freeze(self):
        self.frozen |= {peer for peer, _ in self.pairs}

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.threads[0].join()
        for end in (end for pair in self.pairs for end in pair):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads[1:]:
            thread.join()
        for end in (end for pair in self.pairs for end in pair):
            end.close()


class DraConnection(DraTest):
    def connections(self):
        return list(self.api.server.connections)

    def claim(self, name, number):
        return "default", name, self.api.allocate(name, DRIVER, [("a", self.api.device_named("vendor.example/gpu", number))])

    def check_prepared(self, claim):
        answer = self.prepare(claim)[claim[2]]
        self.assertNotIsInstance(answer, str, answer)

    def await_watch(self):
        until(self.watches, "the watch")

    def start(self, **options):
        self.serve_api(**options)
        self.begin(self.resource("gpu", count=8))
        self.await_pool()
        self.await_watch()

    def watches(self):
        return len([path for _, path, _ in list(self.api.requests) if "watch=1" in path])

    def test_one_connection(self):
        """Slices, claims, a watch and the next one share one connection."""
        self.serve_api()
        self.api.faults = [lambda method, path: "empty" if "watch=1" in path and self.watches() == 0 else None]
        self.begin(self.resource("gpu", count=8))
        self.await_pool()
        one, = self.connections()
        self.check_prepared(self.claim("a", 0))
        until(lambda: self.watches() > 1, "the next watch")
        self.api.change("DELETED", next(iter(self.api.slices)))
        self.await_pool()
        self.check_prepared(self.claim("b", 1))
        self.assertEqual(self.connections(), [one])
        # No answer waits for the acknowledgement of another one.
        self.assertTrue(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    def test_server_without_http2(self):
        self.start(http2=False)
        self.check_prepared(self.claim("a", 0))
        self.assertGreaterEqual(len(self.connections()), 2)
        self.api.change("DELETED", next(iter(self.api.slices)))
        self.await_pool()
        self.check_prepared(self.claim("b", 1))

    def test_refused_token(self):
        """A 401 ends no other request of the connection, and the new token needs no new one."""
        self.serve_api()
        token = self.node.path("token")

        def write(text):
            with open(token + ".new", "w") as file:
                file.write(text)
            os.rename(token + ".new", token)

        write("secret-token")
        write_kubeconfig(self.kubeconfig, self.api.url(), self.api.authority, token_file=token)
        self.begin(self.resource("gpu", count=8))
        self.await_pool()
        self.await_watch()
        one, = self.connections()
        watches = self.watches()
        self.api.tokens = {"newer-token": self.api.user}
        write("newer-token")
        self.check_prepared(self.claim("a", 0))
        self.assertIn(401, [code for _, _, code in list(self.api.requests)])
        self.assertEqual(self.connections(), [one])
        self.assertEqual(self.watches(), watches)

    def test_new_certificate(self):
        """Requests use another connection from then on. In between, certificate and key do not belong together."""
        self.start(authority=Authority(self.node.path("pki")))
        one, = self.connections()
        current = self.api.clients["node-a"]
        newer = self.api.authority.issue_client("newer", "system:node:node-a", "system:nodes")
        os.replace(newer[0], current[0])
        # The server does not know the former certificate any more.
        self.api.faults = [lambda method, path: 401 if "/resourceclaims/" in path and len(self.connections()) == 1 else None]
        claim = self.claim("a", 0)
        self.assertIn("cannot read the claim", self.refusal(claim))
        os.replace(newer[1], current[1])
        self.check_prepared(claim)
        self.assertIn(one, self.connections())
        self.assertEqual(len(self.connections()), 2)

    def test_silent_connection(self):
        """A server disappears without a word: the next request finds another connection, in the call of the kubelet."""
        self.serve_api()
        proxy = Proxy(self.api.port)
        self.addCleanup(proxy.stop)
        write_kubeconfig(self.kubeconfig, f"https://127.0.0.1:{proxy.listener.getsockname()[1]}", self.api.authority,
                         client=self.api.clients["node-a"])
        self.begin(self.resource("gpu", count=8))
        self.await_pool()
        self.await_watch()
        proxy.freeze()
        self.check_prepared(self.claim("a", 0))
        self.check_prepared(self.claim("b", 1))

    def test_claims_that_are_read_at_once(self):
        """A server that answers is asked for several claims at once."""
        self.start()
        claims = [self.claim(f"c{number}", number) for number in range(8)]
        begun, open_ = [], []

        def slow(method, path):
            if "/resourceclaims/" not in path:
                return None
            begun.append(path)
            open_.append(len(begun) - len([path for _, path, _ in list(self.api.requests) if "/resourceclaims/" in path]))
            return 0.2

        self.api.faults = [slow]
        answer = self.prepare(*claims)
        self.assertEqual([len(answer[uid]) for _, _, uid in claims], [1] * 8)
        # The first one alone: the server may not answer.
        self.assertEqual(open_[0], 1)
        self.assertGreaterEqual(max(open_), 2)

    def test_long_answers(self):
        """A list of many slices comes while claims are read, and the events of the watch arrive."""
        self.serve_api()
        self.begin(self.resource("gpu", count=600))
        self.await_pool(lambda pool: len(pool) == 600)
        self.await_watch()
        claims = [self.claim(f"c{number}", number * 50) for number in range(8)]
        for number in range(8):
            self.api.change("DELETED", sorted(self.api.slices)[number])
            self.check_prepared(claims[number])
            self.await_pool(lambda pool: len(pool) == 600)
        self.assertEqual(len(self.connections()), 1)


if __name__ == "__main__":
    unittest.main()
