# SPDX-License-Identifier: Apache-2.0
"""The goals: what devplugd is to reach, absolutely or as a share of what a Go peer needs in the same run."""
from collections import namedtuple

# `of`: None for a limit in the row's own unit, else the kind of the peer that it is a share of; `peer_row`: its row, if
# it has another name.
Goal = namedtuple("Goal", "row limit of peer_row", defaults=(None, None))

GOALS = (
    Goal("USS of a child, 32 resources", 500),
    Goal("PSS of all, 1 resources", 0.65, "Go"),
    Goal("PSS of all, 8 resources", 0.5, "Go"),
    Goal("PSS of all, 32 resources", 1.35, "gdp"),
    Goal("PSS of all, 32 resources", 0.33, "Go"),
    Goal("threads of a child, 32 resources", 10),
    Goal("reload that adds a resource, to registered", 0.6, "Go", "start to registered, 1 resources"),
    Goal("start to registered, 32 resources", 0.65, "Go"),
    Goal("start to registered, 50 resources", 0.65, "Go"),
    Goal("kubelet listening to registered, 32 resources", 100),
    Goal("kubelet listening to registered, 50 resources", 100),
    Goal("Allocate, Go client, p50", 0.85, "Go"),
    Goal("Allocate, Go client, p99", 0.8, "Go"),
    Goal("Allocate, Go client, CPU of the server", 0.85, "Go"),
    Goal("Allocate, C client x 8, p99", 0.5, "Go"),
    Goal("change to list, 8 devices, C client, p50", 0.8, "Go"),
    Goal("change to list, 8 devices, C client, p99", 1000),
    Goal("change to list, 10000 devices, C client, p50", 0.7, "Go"),
    Goal("change to list, 10000 devices, C client, CPU of the server", 1.0, "Go"),
    Goal("interface plugged in to list, p99", 20),
    Goal("interface plugged out to list, p99", 20),
    Goal("USS kept after 20,000 pings", 1000),
    Goal("USS kept after 5,000 calls that are reset", 1000),
    Goal("USS kept after 5,000 calls left open", 1000),
    Goal("claims: the same, to random ids", 2),
    Goal("scrape, 50 resources, 250 pods: CPU of the exporter", 10),
    Goal("scrape, 50 resources, 250 pods: PSS of the exporter", 12000),
    Goal("scrape, 50 resources, 250 pods: time to the answer, p50", 100),
    Goal("scrape, 10,000 devices: time to the answer, p50", 100),
    Goal("prepare a claim: besides that answer, p50", 5),
    Goal("claims: longest time without a pause", 250),
    Goal("reload of 50 resources, one changed, to its list", 20),
    Goal("reload: processes or sessions replaced", 0),
    Goal("SIGTERM to exit, 8 resources", 10),
    Goal("SIGTERM to exit, 50 resources", 10),
    Goal("SIGTERM to exit, 8 resources, silent strangers connected", 350),
)


def judge(goal, value):
    """(what was found, as a limit is written; whether the goal is reached), or None where a figure is missing.
    `value`(kind, row) is a median or None."""
    found = value("devplugd", goal.row)
    if found is None:
        return None
    if goal.of is None:
        return f"{found:.1f}", found <= goal.limit
    peer = value(goal.of, goal.peer_row or goal.row)
    if peer is None:
        return None
    # A share of nothing: a Go process that has nothing to do uses no CPU at all.
    if peer == 0:
        return f"{found:.1f}, {goal.of} 0", found == 0
    return f"{found / peer:.2f} x {goal.of}", found / peer <= goal.limit


def limit_text(goal):
    return f"{goal.limit} x {goal.of}" if goal.of else f"{goal.limit}"
