# SPDX-License-Identifier: Apache-2.0
"""The server's side of an HTTP/2 connection, by libnghttp2, which every host with libcurl has. It turns bytes into requests and
answers into bytes, and touches no socket."""
import contextlib
import ctypes
import email.message

ERR_DEFERRED = -508
FLAG_END_STREAM = 1
FRAME_DATA, FRAME_HEADERS = 0, 1
DATA_FLAG_EOF = 1
SETTINGS_MAX_CONCURRENT_STREAMS, SETTINGS_INITIAL_WINDOW_SIZE = 3, 4
# As kube-apiserver.
STREAMS_MAX = 1000
WINDOW = 1 << 20


class Name(ctypes.Structure):
    """nghttp2_nv."""
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("name_size", ctypes.c_size_t),
                ("value_size", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


class Frame(ctypes.Structure):
    """nghttp2_frame_hd, the beginning of each frame."""
    _fields_ = [("size", ctypes.c_size_t), ("stream", ctypes.c_int32), ("type", ctypes.c_uint8), ("flags", ctypes.c_uint8)]


class Setting(ctypes.Structure):
    """nghttp2_settings_entry."""
    _fields_ = [("name", ctypes.c_int32), ("value", ctypes.c_uint32)]


POINTER, SIZE, BYTES = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char)
ON_FRAME = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.POINTER(Frame), POINTER)
ON_HEADER = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.POINTER(Frame), BYTES, SIZE, BYTES, SIZE, ctypes.c_uint8, POINTER)
ON_DATA = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_uint8, ctypes.c_int32, BYTES, SIZE, POINTER)
ON_CLOSE = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_int32, ctypes.c_uint32, POINTER)
READ = ctypes.CFUNCTYPE(ctypes.c_ssize_t, POINTER, ctypes.c_int32, POINTER, SIZE, ctypes.POINTER(ctypes.c_uint32), POINTER, POINTER)


class Provider(ctypes.Structure):
    """nghttp2_data_provider."""
    _fields_ = [("source", POINTER), ("read", READ)]


def load():
    """None: this host does not have it, so there is no HTTP/2."""
    with contextlib.suppress(OSError):
        found = ctypes.CDLL("libnghttp2.so.14")
        found.nghttp2_session_mem_send.restype = found.nghttp2_session_mem_recv.restype = ctypes.c_ssize_t
        return found
    return None


LIBRARY = load()


class Request:
    """`answer`: what is still to be sent."""

    def __init__(self, number):
        self.number, self.fields, self.body = number, email.message.Message(), bytearray()
        self.answer, self.ended = bytearray(), False


class Session:
    """Not thread-safe. `on_request` and `on_close` are called with a Request: when it is complete, and when its stream ends."""

    def __init__(self, on_request, on_close, body_max):
        self.requests, self.on_request, self.on_close, self.body_max = {}, on_request, on_close, body_max
        # The library keeps pointers to them.
        self.callbacks = {"on_begin_headers": ON_FRAME(self.begin), "on_header": ON_HEADER(self.take_field),
                          "on_data_chunk_recv": ON_DATA(self.take_data), "on_frame_recv": ON_FRAME(self.take_frame),
                          "on_stream_close": ON_CLOSE(self.close_stream)}
        self.read = READ(self.give_data)
        table, self.session = POINTER(), POINTER()
        LIBRARY.nghttp2_session_callbacks_new(ctypes.byref(table))
        for name, function in self.callbacks.items():
            getattr(LIBRARY, f"nghttp2_session_callbacks_set_{name}_callback")(table, function)
        LIBRARY.nghttp2_session_server_new(ctypes.byref(self.session), table, None)
        LIBRARY.nghttp2_session_callbacks_del(table)
        settings = (Setting * 2)(Setting(SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX), Setting(SETTINGS_INITIAL_WINDOW_SIZE, WINDOW))
        LIBRARY.nghttp2_submit_settings(self.session, 0, settings, len(settings))

    def free(self):
        LIBRARY.nghttp2_session_del(self.session)

    # --- what libnghttp2 calls

    def begin(self, _session, frame, _data):
        self.requests[frame[0].stream] = Request(frame[0].stream)
        return 0

    def take_field(self, _session, frame, name, name_size, value, value_size, _flags, _data):
        self.requests[frame[0].stream].fields[name[:name_size].decode("latin-1")] = value[:value_size].decode("latin-1")
        return 0

    def take_data(self, _session, _flags, number, data, size, _data):
        request = self.requests.get(number)
        # One byte more than the maximum shows that it was exceeded.
        if request:
            request.body += data[:max(0, min(size, self.body_max + 1 - len(request.body)))]
        return 0

    def take_frame(self, _session, frame, _data):
        request = self.requests.get(frame[0].stream)
        if request and frame[0].type in (FRAME_DATA, FRAME_HEADERS) and frame[0].flags & FLAG_END_STREAM:
            self.on_request(request)
        return 0

    def close_stream(self, _session, number, _error, _data):
        request = self.requests.pop(number, None)
        if request:
            self.on_close(request)
        return 0

    def give_data(self, _session, number, buffer, size, flags, _source, _data):
        request = self.requests[number]
        part = bytes(request.answer[:size])
        del request.answer[:size]
        if request.ended and not request.answer:
            flags[0] |= DATA_FLAG_EOF
        elif not part:
            return ERR_DEFERRED
        ctypes.memmove(buffer, part, len(part))
        return len(part)

    # --- what the server calls

    def receive(self, data):
        """Returns whether the peer follows the protocol."""
        return LIBRARY.nghttp2_session_mem_recv(self.session, data, SIZE(len(data))) == len(data)

    def take_output(self):
        found, output = POINTER(), bytearray()
        while (size := LIBRARY.nghttp2_session_mem_send(self.session, ctypes.byref(found))) > 0:
            output += ctypes.string_at(found, size)
        return bytes(output)

    def is_open(self):
        return bool(LIBRARY.nghttp2_session_want_read(self.session) or LIBRARY.nghttp2_session_want_write(self.session))

    def begin_answer(self, request, code, fields):
        if request.number not in self.requests:
            return
        fields = [(b":status", str(code).encode()), *((name.lower().encode(), value.encode()) for name, value in fields)]
        names = (Name * len(fields))(*(Name(name, value, len(name), len(value), 0) for name, value in fields))
        LIBRARY.nghttp2_submit_response(self.session, request.number, names, SIZE(len(names)), ctypes.byref(Provider(None, self.read)))

    def add_answer(self, request, data, ended):
        request.answer += data
        request.ended = ended
        LIBRARY.nghttp2_session_resume_data(self.session, request.number)
