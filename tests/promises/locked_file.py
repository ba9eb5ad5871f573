# SPDX-License-Identifier: Apache-2.0
"""A regular file whose readers wait until it is unlocked, as those of a file in /sys wait while a driver has the device
locked: a file system of one file (FUSE), whose answer to a read is held back. Even SIGKILL does not end such a wait."""
import contextlib
import ctypes
import errno
import os
import struct
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
DETACH = 2
GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 3, 14, 15, 17, 18, 25, 26
WITHOUT_ANSWER = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
DIRECT_IO = 1


class LockedFile:
    """Takes the place of the file at a path until close()."""

    def __init__(self, path, text, locked=True):
        self.path, self.data, self.locked = path, text.encode(), locked
        self.held = []  # (request, offset, size)
        self.readers = threading.Condition()
        with open(path, "a"):
            pass
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=100444,user_id=0,group_id=0,allow_other"
        if LIBC.mount(b"locked", path.encode(), b"fuse", 0, options.encode()) != 0:
            os.close(self.fd)
            raise OSError(ctypes.get_errno(), "cannot mount", path)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def answer(self, request, data=b"", error=0):
        # The reader may have been killed.
        with contextlib.suppress(FileNotFoundError):
            os.write(self.fd, struct.pack("=IiQ", 16 + len(data), -error, request) + data)

    def serve(self):
        while True:
            try:
                message = os.read(self.fd, 1 << 17)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return  # unmounted
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                raise
            _, code, request = struct.unpack_from("=IIQ", message)
            self.handle(code, request, message[40:])

    def handle(self, code, request, body):
        if code == INIT:
            self.answer(request, struct.pack("=IIIIHHIIHHI28x", 7, 31, 4096, 0, 8, 8, 4096, 1, 1, 0, 0))
        elif code == GETATTR:
            self.answer(request, struct.pack("=QII6Q10I", 0, 0, 0, 1, 4096, 8, 0, 0, 0, 0, 0, 0, 0o100444, 1, 0, 0, 0, 4096, 0))
        elif code == OPEN:
            self.answer(request, struct.pack("=QII", 0, DIRECT_IO, 0))
        elif code == READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            with self.readers:
                if self.locked:
                    self.held.append((request, offset, size))
                    self.readers.notify_all()
                else:
                    self.answer(request, self.data[offset:offset + size])
        elif code in (RELEASE, FLUSH):
            self.answer(request)
        elif code not in WITHOUT_ANSWER:
            self.answer(request, error=errno.ENOSYS)

    def lock(self):
        with self.readers:
            self.locked = True

    def await_reader(self, limit):
        """Waits until a reader waits. Returns whether one does."""
        with self.readers:
            return self.readers.wait_for(lambda: self.held, limit)

    def unlock(self):
        with self.readers:
            self.locked = False
            for request, offset, size in self.held:
                self.answer(request, self.data[offset:offset + size])
            self.held.clear()

    def close(self):
        self.unlock()
        LIBC.umount2(self.path.encode(), DETACH)
        self.thread.join()
        os.close(self.fd)
