# SPDX-License-Identifier: Apache-2.0
"""The discovery programs for ONVIF cameras and OPC UA servers in docs/examples/exec, against small servers of our own, and
as devplugd runs them.

complaints.md: none; Akri's handlers for the same.
"""
import http.server
import json
import os
import socket
import struct
import subprocess
import threading
import unittest

from threads import HttpServer, in_thread
from tool import ToolTest

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/examples/exec")
ONVIF = os.path.join(EXAMPLES, "onvif-discover")
OPCUA = os.path.join(EXAMPLES, "opcua-discover")
MATCH = """<?xml version="1.0"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"
 xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery"><s:Body>
<d:ProbeMatches><d:ProbeMatch><a:EndpointReference><a:Address>urn:uuid:%s</a:Address></a:EndpointReference>
<d:Types>dn:NetworkVideoTransmitter</d:Types><d:Scopes>onvif://www.onvif.org/name/Front %s</d:Scopes>
<d:XAddrs>%s</d:XAddrs></d:ProbeMatch></d:ProbeMatches></s:Body></s:Envelope>"""
INTERFACES = """<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:t="http://www.onvif.org/ver10/schema"><s:Body>
<t:Info><t:HwAddress>00:00:5e:00:53:01</t:HwAddress></t:Info></s:Body></s:Envelope>"""


class Camera(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        text = INTERFACES if "GetNetworkInterfaces" in body else "<answer/>"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def serve_datagrams(test, answers):
    """Sends all answers to each who asks. Returns the address."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.bind(("127.0.0.1", 0))
    peer.settimeout(0.2)
    over = threading.Event()

    def serve():
        while not over.is_set():
            try:
                question, sender = peer.recvfrom(65536)
            except TimeoutError:
                continue
            assert b"NetworkVideoTransmitter" in question
            for answer in answers:
                peer.sendto(answer, sender)

    test.addCleanup(peer.close)
    in_thread(test, serve)
    test.addCleanup(over.set)
    return "127.0.0.1:%d" % peer.getsockname()[1]


def string(text):
    return struct.pack("<i", len(text)) + text.encode()


def server_description(uri, name, kind, *urls):
    return (string(uri) + string("product") + b"\x03" + string("en") + string(name) + struct.pack("<i", kind)
            + struct.pack("<ii", -1, -1) + struct.pack("<i", len(urls)) + b"".join(string(url) for url in urls))


def answer_body(number, rest, status=0):
    header = struct.pack("<qII", 0, 1, status) + b"\0" + struct.pack("<i", -1) + b"\0\0\0"
    return struct.pack("<BBH", 1, 0, number) + header + rest


class Opcua:
    """A discovery server for one connection after another. `answer` replaces what FindServers gives."""

    def __init__(self, test, *servers, answer=None):
        body = struct.pack("<i", len(servers)) + b"".join(servers)
        self.answer = answer or answer_body(425, body)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "opc.tcp://127.0.0.1:%d/" % self.socket.getsockname()[1]
        self.socket.settimeout(0.2)
        self.over = threading.Event()
        in_thread(test, self.serve)
        test.addCleanup(self.over.set)

    @staticmethod
    def exactly(peer, size):
        data = b""
        while len(data) < size:
            part = peer.recv(size - len(data))
            if not part:
                raise ConnectionError
            data += part
        return data

    def receive(self, peer, kind):
        head = self.exactly(peer, 8)
        assert head[:4] == kind + b"F", head
        return self.exactly(peer, struct.unpack_from("<I", head, 4)[0] - 8)

    @staticmethod
    def send(peer, kind, body):
        peer.sendall(kind + struct.pack("<I", 8 + len(body)) + body)

    def talk(self, peer):
        hello = self.receive(peer, b"HEL")
        assert hello.endswith(string(self.url)), hello
        self.send(peer, b"ACKF", struct.pack("<IIIII", 0, 65536, 65536, 0, 0))
        opening = self.receive(peer, b"OPN")
        assert b"SecurityPolicy#None" in opening
        token = struct.pack("<I", 0) + struct.pack("<IIqI", 7, 9, 0, 60000) + struct.pack("<i", -1)
        self.send(peer, b"OPNF", struct.pack("<I", 7) + string("http://opcfoundation.org/UA/SecurityPolicy#None")
                  + struct.pack("<ii", -1, -1) + struct.pack("<II", 1, 1) + answer_body(449, token))
        question = self.receive(peer, b"MSG")
        assert struct.unpack_from("<II", question) == (7, 9), question
        # In two chunks.
        half = len(self.answer) // 2
        for kind, part, number in ((b"MSGC", self.answer[:half], 2), (b"MSGF", self.answer[half:], 3)):
            self.send(peer, kind, struct.pack("<IIII", 7, 9, number, 2) + part)

    def serve(self):
        while not self.over.is_set():
            try:
                peer, _ = self.socket.accept()
            except TimeoutError:
                continue
            with peer:
                peer.settimeout(10)
                try:
                    self.talk(peer)
                except ConnectionError:
                    pass
        self.socket.close()


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def devices(*command):
    answer = run(*command)
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["version"] == 1
    return {device["id"]: device for device in document["devices"]}


class Onvif(ToolTest):
    def setUp(self):
        super().setUp()
        camera = HttpServer(("127.0.0.1", 0), Camera)
        self.addCleanup(camera.stop)
        self.url = "http://127.0.0.1:%d/onvif/device_service" % camera.server_address[1]
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self.dead = "http://127.0.0.1:%d/" % unused.getsockname()[1]
        self.address = serve_datagrams(self, [
            (MATCH % ("4d9a-1", "onvif://www.onvif.org/location/door", self.url)).encode(),
            (MATCH % ("4d9a-1", "onvif://www.onvif.org/location/door", self.url)).encode(),
            (MATCH % ("4d9a-2", "onvif://www.onvif.org/location/yard", self.dead)).encode(),
            # What no camera sends.
            b"", b"<", b"\xff\xfe", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>',
            (MATCH % ("file", "", "file:///etc/passwd")).encode(), (MATCH % ("", "", self.url)).encode()])

    def find(self, *options):
        return devices(ONVIF, "--address", self.address, "--timeout", "1", *options)

    def test_cameras(self):
        found = self.find()
        self.assertEqual(set(found), {"uuid:4d9a-1", "uuid:4d9a-2"})
        self.assertEqual(found["uuid:4d9a-1"], {"id": "uuid:4d9a-1", "properties": {
            "ONVIF_DEVICE_SERVICE_URL": self.url, "ONVIF_DEVICE_IP_ADDRESS": "127.0.0.1",
            "ONVIF_DEVICE_MAC_ADDRESS": "00:00:5e:00:53:01", "ONVIF_DEVICE_UUID": "4d9a-1"}})
        self.assertIs(found["uuid:4d9a-2"]["healthy"], False)
        self.assertIn("does not answer", found["uuid:4d9a-2"]["reason"])

    def test_filters(self):
        """Akri: ipAddresses, macAddresses, scopes and uuids, each Include or Exclude."""
        cases = (("--include", "uuid=4d9a-1"), ("--exclude", "uuid=*-2"), ("--include", "mac=00:00:5E:*"),
                 ("--include", "uuid=4D9A-1"), ("--exclude", "uuid=4D9A-2"),
                 ("--include", "scope=*/location/door", "--include", "scope=*/nowhere"), ("--exclude", "scope=*/yard"))
        for options in cases:
            self.assertEqual(set(self.find(*options)), {"uuid:4d9a-1"}, options)
        self.assertEqual(self.find("--exclude", "ip=127.*"), {})
        self.assertEqual(run(ONVIF, "--include", "x=y").returncode, 2)

    def test_as_a_resource(self):
        self.node.configure(
            f'{{ name = "vendor.example/camera"; driver = "exec"; match = ( {{ command = [ "{ONVIF}", "--address", '
            f'"{self.address}" ]; properties = "akri"; }} ); share = {{ replicas = 2; max_per_container = 1; }}; }}')
        answer = self.ctl("preview", "vendor.example/camera", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        document = json.loads(answer.stdout)
        self.assertEqual({d["id"]: d["health"] for d in document["devices"]},
                         {"uuid:4d9a-1": "Healthy", "uuid:4d9a-2": "Unhealthy"})
        envs = document["answer"]["envs"]
        self.assertEqual(envs["ONVIF_DEVICE_SERVICE_URL"], self.url)
        self.assertEqual(len([name for name in envs if name.startswith("ONVIF_DEVICE_SERVICE_URL_")]), 1)


class OpcUa(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = Opcua(
            self, server_description("urn:plant:b", "Boiler", 0, "https://plant/", "opc.tcp://plant:4841/"),
            server_description("urn:plant:c", "Crane", 2, "opc.tcp://plant:4842/"),
            server_description("urn:plant:client", "Panel", 1, "opc.tcp://plant:4843/"),
            server_description("urn:plant:lds", "Discovery", 3, "opc.tcp://plant:4840/"),
            server_description("urn:plant:web", "Web", 0, "https://plant/web"))

    def test_servers(self):
        self.assertEqual(devices(OPCUA, self.server.url), {
            "urn:plant:b": {"id": "urn:plant:b", "properties": {"OPCUA_DISCOVERY_URL": "opc.tcp://plant:4841/"}},
            "urn:plant:c": {"id": "urn:plant:c", "properties": {"OPCUA_DISCOVERY_URL": "opc.tcp://plant:4842/"}}})

    def test_filters(self):
        """Akri: applicationNames, Include or Exclude."""
        self.assertEqual(set(devices(OPCUA, "--include", "Boil*", self.server.url)), {"urn:plant:b"})
        self.assertEqual(set(devices(OPCUA, "--exclude", "Boiler", self.server.url)), {"urn:plant:c"})

    def test_failures(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dead = "opc.tcp://127.0.0.1:%d/" % listener.getsockname()[1]
        self.assertEqual(set(devices(OPCUA, dead, self.server.url)), {"urn:plant:b", "urn:plant:c"})
        answer = run(OPCUA, dead, "http://plant/")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("http://plant/: is no URL", answer.stderr)

    def test_nonsense(self):
        cases = {"is too short": answer_body(425, struct.pack("<i", 5)), "too many": answer_body(425, struct.pack("<i", 1 << 30)),
                 "is another one": answer_body(397, b""), "0x80010000": answer_body(425, b"", 0x80010000)}
        for expected, text in cases.items():
            answer = run(OPCUA, Opcua(self, answer=text).url)
            self.assertEqual(answer.returncode, 1)
            self.assertIn(expected, answer.stderr)

    def test_as_a_resource(self):
        self.node.configure(
            f'{{ name = "vendor.example/plant"; driver = "exec"; match = ( {{ command = [ "{OPCUA}", "{self.server.url}" ]; '
            'properties = "akri"; } ); }')
        answer = self.ctl("preview", "vendor.example/plant", "--json", "urn:plant:b")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["answer"]["envs"]["OPCUA_DISCOVERY_URL"], "opc.tcp://plant:4841/")


if __name__ == "__main__":
    unittest.main()
