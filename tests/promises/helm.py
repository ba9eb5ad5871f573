# SPDX-License-Identifier: Apache-2.0
"""Renders a Helm chart that keeps to a part of Helm's templates.

That part: actions that are alone in their line or stand for a value; if and end; .Values, .Release and .Chart; and the
functions toYaml, nindent, quote and default. Anything else is an error, so that a chart cannot leave that part unnoticed.
"""
import os
import re

import yaml

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}")


def lookup(path, context):
    assert re.fullmatch(r"(\.\w+)+", path), path
    for key in path[1:].split("."):
        # As in Helm, what is missing in .Values is empty; the test wants it to be there.
        context = context[key]
    return context


def term(word, context):
    return word[1:-1] if word.startswith('"') else lookup(word, context)


def evaluate(pipeline, context):
    value = None
    for i, command in enumerate(re.split(r"\s*\|\s*", pipeline)):
        name, *words = command.split()
        arguments = [term(word, context) for word in words] if name in ("toYaml", "default") else words
        arguments += [value] if i > 0 else []
        if name == "toYaml":
            value = yaml.safe_dump(arguments[0], sort_keys=False).rstrip("\n")
        elif name == "nindent":
            value = "\n" + "\n".join(" " * int(arguments[0]) + line for line in str(arguments[1]).split("\n"))
        elif name == "quote":
            value = f'"{arguments[0]}"'
        elif name == "default":
            value = arguments[1] or arguments[0]
        else:
            assert i == 0 and not words, f"not in the part of Helm that is rendered here: {command}"
            value = term(name, context)
    return value


def render(text, context):
    out, shown = [], [True]
    # Each action, whether it takes the space behind it, the text up to the next one, and whether that takes the space before it.
    parts = ["", "", *ACTION.split(text), ""]
    for action, trimmed, between, trims in zip(*[iter(parts)] * 4):
        between = between.lstrip() if trimmed else between
        if action.startswith("if "):
            shown.append(bool(evaluate(action[3:], context)))
        elif action == "end":
            shown.pop()
        elif action and all(shown):
            out.append(str(evaluate(action, context)))
        if all(shown):
            out.append(between.rstrip() if trims else between)
    assert shown == [True], "if without end"
    return "".join(out)


def merge(base, patch):
    """The patch wins; as in a strategic merge, objects in lists are found by their names."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: merge(base[key], value) if key in base else value for key, value in patch.items()}}
    if isinstance(base, list) and patch and all(isinstance(item, dict) and "name" in item for item in base + patch):
        named = {item["name"]: item for item in base}
        for item in patch:
            named[item["name"]] = merge(named.get(item["name"], {}), item)
        return list(named.values())
    return patch


def template(chart, release, namespace, values):
    """The objects of a release, as "helm template" prints them; values are merged into those of the chart."""
    def read(name):
        with open(os.path.join(chart, name)) as file:
            return file.read()

    about = yaml.safe_load(read("Chart.yaml"))
    context = {"Values": merge(yaml.safe_load(read("values.yaml")), values),
               "Release": {"Name": release, "Namespace": namespace}, "Chart": {"AppVersion": about["appVersion"]}}
    return [document for name in sorted(os.listdir(os.path.join(chart, "templates")))
            for document in yaml.safe_load_all(render(read("templates/" + name), context)) if document]
