# SPDX-License-Identifier: Apache-2.0
"""The lines of the page: what is measured, its goal, and which row is its floor. The bench prints them, and
docs/make-performance makes docs/contributing/performance.md of them."""
import statistics
from collections import namedtuple

# `goals`: limits as (number, of): of None is a limit in the row's own unit, "Go", "one" and "floor" make it a share of the
# peer's figure in the same run. `only`: the word of `bench --only` that measures it. `one`: whether one process for all
# resources differs from one for each.
Line = namedtuple("Line", "title row goals only floor one", defaults=(None, True))

DURING = (("100 scrapes at once", "beside 100 scrapes at once", "floor: Allocate, nothing else, p99", "scrapes"),
          ("reloads of 50 resources, 10 a second", "during reloads of 50 resources",
           "floor: Allocate, before reloads of 50 resources, p99", "disturbed"),
          ("a health storm of 100 devices", "during a health storm", "floor: Allocate, before a health storm, p99", "disturbed"),
          ("a hanging NVML process", "during a hanging NVML process",
           "floor: Allocate, before a hanging NVML process, p99", "disturbed"))
LEAST = "floor: least answer over HTTP/2, {}"

LINES = (
    Line("dirty memory, 32 resources", "dirty memory of all, 32 resources, at rest", ((0.25, "Go"), (2.4, "one")), "memory"),
    *(Line(f"private dirty memory, {resources}", f"private dirty memory of all, {count} resources, at rest", ((limit, "Go"),),
           "memory")
      for count, resources, limit in ((1, "1 resource", 0.6), (8, "8 resources", 0.3))),
    *(Line(f"PSS {title}, {count} resource{'s' * (count > 1)}", f"PSS of all, {count} resources, {when}",
           ((limit, "Go"), *(((1.35, "one"),) if count == 32 else ())), "memory")
      for when, title in (("early", "2 s after the start"), ("at rest", "60 s after the start"))
      for count, limit in ((1, 0.65), (8, 0.5), (32, 0.33))),
    Line("threads of a child", "threads of a child, 32 resources", ((10, None),), "memory", None, False),
    Line("idle, 8 resources: CPU, of one processor", "idle, 8 resources: CPU of one processor", ((0.05, None),), "idle"),
    Line("idle: wakeups of a child in a minute", "idle: wakeups a minute of a child", (), "idle"),
    *(Line(f"start to registered, {count} resources", f"start to registered, {count} resources", ((0.65, "Go"),), "start")
      for count in (32, 50)),
    Line("kubelet back to all 50 registered", "kubelet listening to registered, 50 resources, p50", ((100, None),), "restarts"),
    Line("the same, longest of all restarts", "kubelet listening to registered, 50 resources, most", ((100, None),), "restarts"),
    *(Line(f"Allocate, Go client, {figure}", f"Allocate, Go client, {row}", ((limit, "Go"),), "calls",
           None if figure == "CPU" else LEAST.format(f"Go client, {figure}"), False)
      for figure, row, limit in (("p50", "p50", 0.85), ("p99", "p99", 0.8), ("CPU", "CPU of the server", 0.85))),
    Line("Allocate, 8 C clients, p99", "Allocate, C client x 8, p99", ((0.5, "Go"),), "calls",
         LEAST.format("C client x 8, p99"), False),
    Line("change to list, 8 devices, p50", "change to list, 8 devices, C client, p50", ((0.8, "Go"),), "changes",
         "floor: change of a file to a word on a socket, p50", False),
    Line("change to list, 10,000 devices, p50", "change to list, 10000 devices, C client, p50", ((0.7, "Go"),), "changes", None,
         False),
    Line("change to list, 10,000 devices, CPU", "change to list, 10000 devices, C client, CPU of the server", ((1.0, "Go"),),
         "changes", None, False),
    Line("health storm, CPU in a second", "health storm, 100 devices: CPU a second", ((0.15, "Go"),), "storm", None, False),
    Line("stop of 50 resources", "SIGTERM to exit, 50 resources", ((1.4, "floor"),), "stop",
         "floor: SIGKILL of as many such children, 50 resources", False),
    Line("80,000 colliding ids, CPU", "claims: CPU for 80,000 ids that collide without a key", ((2, "floor"),), "claims",
         "claims: CPU for 80,000 random ids", False),
    *(Line(f"Allocate p99 during {title}", f"Allocate, {row}, p99", ((2, "floor"),), only, floor, False)
      for title, row, floor, only in DURING),
    Line("PodResources of 250 pods: CPU", "pods: CPU for an answer, 250 pods, 10,000 devices", ((20, None),), "pods", None, False),
    Line("--check of 1000 resources", "--check of 1000 resources", ((300, None),), "tools", None, False),
    Line("devplugctl status, 10,000 devices", "devplugctl status, 10,000 devices", ((100, None),), "tools", None, False),
    Line("DRA: prepare of a claim by TLS, p50", "DRA: prepare of a claim, p50", ((5, None), (1.5, "floor")), "dra",
         "floor: DRA: GET on an open connection and two files, p50", False),
    Line("DRA: prepare after 65 s without one, p50", "DRA: prepare after 65 s without one, p50", ((1.0, "floor"),), "dra_idle",
         "floor: DRA: prepare of the next claims, p50", False),
    Line("DRA: requests to the API server for a change", "DRA: requests for a change", ((1, None),), "dra", None, False),
    Line("DRA: dirty memory of devplugd-cluster", "DRA: dirty memory of devplugd-cluster", (), "dra", None, False),
)


class Figures:
    """The figures of one run: {row: {subject: {"values": [...], "unit": ...}}}."""

    def __init__(self, figures):
        self.figures = figures

    def value(self, row, subject="devplugd"):
        """The median of the rounds, or None."""
        found = self.figures.get(row, {}).get(subject)
        return statistics.median(found["values"]) if found else None

    def unit(self, row):
        return next(iter(self.figures[row].values()))["unit"]

    def of_line(self, line, column):
        """The value in one of the columns "devplugd", "Go", "one" and "floor", or None."""
        if column == "floor":
            return self.value(line.floor) if line.floor else None
        return None if column == "one" and not line.one else self.value(line.row, column)

    def cell(self, line, column):
        value = self.of_line(line, column)
        return "" if value is None else write(value, self.unit(line.row))

    def judge(self, line):
        """(what was found, as the goals are written; whether they are reached), or None where a figure is missing."""
        found, reached = [], True
        for limit, of in line.goals:
            value, peer = self.value(line.row), self.of_line(line, of) if of else 1
            if value is None or peer is None:
                return None
            ratio = value / peer if peer else float("inf") if value else 0
            found.append(f"{ratio:.2f} x {of}" if of else write(value, self.unit(line.row)))
            reached = reached and ratio <= limit
        return (", ".join(found), reached) if found else None


def write(value, unit):
    """For people: 12.2 MB, 349 us, 90 ms, 0.012 %."""
    if unit == "kB":
        return f"{value / 1000:.1f} MB"
    if unit == "us" and value >= 10000:
        value, unit = value / 1000, "ms"
    digits = 3 if unit == "%" else 0 if unit == "us" or value >= 100 or value == int(value) else 1
    return f"{value:.{digits}f} {unit}".rstrip()


def goal_text(line, unit):
    return ", ".join(f"{limit:g} x {of}" if of else write(limit, unit) for limit, of in line.goals)
