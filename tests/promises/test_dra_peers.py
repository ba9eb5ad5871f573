# SPDX-License-Identifier: Apache-2.0
"""P16 for the socket of the DRA driver: whatever a process of root sends, the kubelet is served."""
import threading
import unittest

from dra_kubelet import Call
from dra_node import DraTest
from http2 import CONTINUATION, HEADERS, connect, frame, literal_head, send_without_end
from node import until


class DraPeers(DraTest):
    def answers(self):
        """As to a kubelet, which tries again: the cut can take a connection that was made meanwhile, too."""
        try:
            return self.unprepare(("default", "c", "no-such-claim")) == {"no-such-claim": ""}
        except (OSError, Call):
            return False

    def test_P16_a_header_that_never_ends(self):
        """gRPC reads such a peer and no other one. devplugd cuts it off."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        process = self.process()
        flood = frame(CONTINUATION, 0, 1, b"a" * 16384) * 16
        stopping = threading.Event()
        senders = []
        for _ in range(2):
            peer = connect(self.kubelet.service(self.socket), frame(HEADERS, 0, 1, literal_head("x", 1 << 30)))
            self.addCleanup(peer.close)
            peer.settimeout(1)
            senders.append(threading.Thread(target=send_without_end, args=(peer, flood, stopping)))
            senders[-1].start()
        try:
            until(lambda: not any(sender.is_alive() for sender in senders), "the peers to be cut off")
        finally:
            stopping.set()
            for sender in senders:
                sender.join()
        until(self.answers, "the kubelet to be answered")
        self.assertEqual(self.process(), process)


if __name__ == "__main__":
    unittest.main()
