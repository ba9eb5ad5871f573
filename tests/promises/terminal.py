# SPDX-License-Identifier: Apache-2.0
"""A terminal in which a program runs, as it looks at any time: what ncurses sends to an xterm, and no more."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

LIMIT = float(os.environ.get("DEVPLUGD_TEST_LIMIT") or 120)
SEQUENCE = re.compile(r"\x1b(?:\[([?>]?)([0-9;]*)([@-~])|[()][0-9A-B]|[=>78M])|\x1b\][^\x07]*\x07")


class Style:
    """How a cell looks: colour is None or 0 to 7."""

    def __init__(self, colour=None, bold=False, dim=False, reverse=False):
        self.colour, self.bold, self.dim, self.reverse = colour, bold, dim, reverse

    def key(self):
        return self.colour, self.bold, self.dim, self.reverse


class Terminal:
    def __init__(self, command, rows=24, columns=80, environment=None):
        self.rows, self.columns = rows, columns
        self.text = ""  # received and not interpreted yet: half of a sequence
        self.bytes = b""
        self.received = b""
        self.status = None
        self.cells = [[(" ", Style())] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.style = Style()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(command[0], command, {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                                            **(environment or {})})
        self.resize(rows, columns)

    # --- what a person does

    def resize(self, rows, columns):
        blank = " ", Style()
        self.rows, self.columns = rows, columns
        self.cells = [(row + [blank] * columns)[:columns] for row in self.cells[:rows]]
        self.cells += [[blank] * columns for _ in range(rows - len(self.cells))]
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def lines(self):
        return ["".join(character for character, _ in row).rstrip() for row in self.cells]

    def until(self, condition, what):
        """Waits until condition(lines) is true, and returns its value."""
        end = time.monotonic() + LIMIT
        while True:
            value = condition(self.lines())
            if value:
                return value
            if not self.receive(end - time.monotonic()):
                raise AssertionError(f"waited in vain for {what}; the screen:\n" + "\n".join(self.lines()))

    def wait(self):
        """Waits until the program ends; returns its exit status."""
        while self.receive(LIMIT):
            pass
        return self.end()

    def end(self, number=None):
        if self.status is None:
            if number:
                os.kill(self.pid, number)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.fd)
        return self.status

    def close(self):
        self.end(signal.SIGKILL)

    # --- what the program does

    def receive(self, patience):
        """Takes what has come. False: nothing comes any more, or not in time."""
        if not select.select([self.fd], [], [], max(patience, 0))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program has ended
            data = b""
        self.received += data
        self.bytes += data
        whole = self.bytes.decode(errors="ignore")
        self.bytes = self.bytes[len(whole.encode()):] if self.bytes.startswith(whole.encode()) else b""
        self.text += whole
        self.interpret()
        return bool(data)

    def interpret(self):
        while self.text:
            if self.text[0] == "\x1b":
                match = SEQUENCE.match(self.text)
                if not match:
                    return
                if match.group(3) and not match.group(1):
                    self.control(match.group(3), [int(n or 0) for n in match.group(2).split(";")])
                self.text = self.text[match.end():]
                continue
            self.character(self.text[0])
            self.text = self.text[1:]

    def character(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        elif c == "\b":
            self.column = max(self.column - 1, 0)
        elif c >= " ":
            self.column = min(self.column, self.columns - 1)
            self.cells[self.row][self.column] = (c, self.style)
            self.last = c
            self.column += 1

    def control(self, name, numbers):
        n = numbers[0] or 1
        row, blank = self.cells[min(self.row, self.rows - 1)], (" ", self.style)
        column = min(self.column, self.columns - 1)
        if name in "Hf":
            self.row = min(n, self.rows) - 1
            self.column = min((numbers[1] if len(numbers) > 1 else 1) or 1, self.columns) - 1
        elif name == "d":
            self.row = min(n, self.rows) - 1
        elif name == "G":
            self.column = min(n, self.columns) - 1
        elif name == "A":
            self.row = max(self.row - n, 0)
        elif name == "B":
            self.row = min(self.row + n, self.rows - 1)
        elif name == "C":
            self.column = min(self.column + n, self.columns - 1)
        elif name == "D":
            self.column = max(self.column - n, 0)
        elif name == "K":
            start, end = {0: (column, self.columns), 1: (0, column + 1), 2: (0, self.columns)}[numbers[0]]
            row[start:end] = [blank] * (end - start)
        elif name == "J":
            first = 0 if numbers[0] == 2 else self.row + 1
            if numbers[0] == 0:
                row[column:] = [blank] * (self.columns - column)
            for i in range(first, self.rows):
                self.cells[i] = [blank] * self.columns
        elif name == "X":
            row[column:column + n] = [blank] * len(row[column:column + n])
        elif name == "P":
            del row[column:column + n]
            row += [blank] * (self.columns - len(row))
        elif name == "@":
            row[column:column] = [blank] * n
            del row[self.columns:]
        elif name == "L":
            self.cells[self.row:self.row] = [[blank] * self.columns for _ in range(n)]
            del self.cells[self.rows:]
        elif name == "M":
            del self.cells[self.row:self.row + n]
            self.cells += [[blank] * self.columns for _ in range(self.rows - len(self.cells))]
        elif name == "b":
            for _ in range(n):
                self.character(self.last)
        elif name == "m":
            self.set_style(numbers)

    def set_style(self, numbers):
        style = Style(*self.style.key())
        for n in numbers:
            if n == 0:
                style = Style()
            elif n in (1, 2, 7):
                setattr(style, {1: "bold", 2: "dim", 7: "reverse"}[n], True)
            elif n == 22:
                style.bold = style.dim = False
            elif n == 27:
                style.reverse = False
            elif 30 <= n <= 37:
                style.colour = n - 30
            elif n == 39:
                style.colour = None
        self.style = style
