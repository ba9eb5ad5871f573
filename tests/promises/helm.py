# SPDX-License-Identifier: Apache-2.0
"""Renders a Helm chart that keeps to a part of Helm's templates.

That part: actions that are alone in their line or stand for a value; if, range and end; .Values, .Release and .Chart, or "." in a
range; and the functions toYaml, nindent, quote, default, ne, and and or. Anything else is an error, so that a chart cannot leave that part
unnoticed.
"""
import os
import re

import yaml

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}")


def lookup(path, context):
    if path == ".":
        return context["."]
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
        arguments = [term(word, context) for word in words] if name in ("toYaml", "default", "ne", "and", "or") else words
        arguments += [value] if i > 0 else []
        if name == "toYaml":
            value = yaml.safe_dump(arguments[0], sort_keys=False).rstrip("\n")
        elif name == "nindent":
            value = "\n" + "\n".join(" " * int(arguments[0]) + line for line in str(arguments[1]).split("\n"))
        elif name == "quote":
            value = f'"{arguments[0]}"'
        elif name == "default":
            value = arguments[1] or arguments[0]
        elif name == "or":
            value = next((one for one in arguments if one), arguments[-1])
        elif name == "and":
            value = next((one for one in arguments if not one), arguments[-1])
        elif name == "ne":
            value = arguments[0] != arguments[1]
        else:
            assert i == 0 and not words, f"not in the part of Helm that is rendered here: {command}"
            value = term(name, context)
    return value


def split(text):
    """[(action, text up to the next one)]; the text has lost the white space that actions take."""
    # Each action, whether it takes the space behind it, the text up to the next one, and whether that takes the space before it.
    parts = ["", "", *ACTION.split(text), ""]
    for action, trimmed, between, trims in zip(*[iter(parts)] * 4):
        between = between.lstrip() if trimmed else between
        yield action, between.rstrip() if trims else between


def find_end(parts):
    """The index of the end of a block that has begun before."""
    depth = 1
    for i, (action, _) in enumerate(parts):
        depth += action.startswith(("if ", "range ")) - (action == "end")
        if depth == 0:
            return i
    raise AssertionError("if or range without end")


def show(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def render_parts(parts, context):
    out = []
    while parts:
        (action, between), parts = parts[0], parts[1:]
        if action.startswith(("if ", "range ")):
            word, condition = action.split(" ", 1)
            end = find_end(parts)
            value = evaluate(condition, context)
            contexts = [{**context, ".": item} for item in value] if word == "range" else [context] if value else []
            out += [between + render_parts(parts[:end], inner) for inner in contexts]
            between, parts = parts[end][1], parts[end + 1:]
        elif action:
            assert action != "end", "end without if or range"
            out.append(show(evaluate(action, context)))
        out.append(between)
    return "".join(out)


def render(text, context):
    return render_parts(list(split(text)), context)


def merge(base, patch):
    """The patch wins; as in a strategic merge, objects in lists are found by their names, or where they are mounted."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: merge(base[key], value) if key in base else value for key, value in patch.items()}}
    for key in ("mountPath", "name"):
        if isinstance(base, list) and patch and all(isinstance(item, dict) and key in item for item in base + patch):
            found = {item[key]: item for item in base}
            for item in patch:
                if item.get("$patch") == "delete":
                    del found[item[key]]
                else:
                    found[item[key]] = merge(found.get(item[key], {}), item)
            return list(found.values())
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
