"""What Oracle's SDK for Python says about its operations and models, read from its source: methods, paths, parameters,
fields, types, enums, discriminators. The SDK itself ignores fields that it does not know and misses none that are absent,
so calling it proves little; this is compared with every exchange instead."""

import ast
import importlib
import inspect
import os
import re

os.environ["OCI_PYTHON_SDK_NO_SERVICE_IMPORTS"] = "1"
import oci  # noqa: E402

ROOT = os.path.dirname(oci.__file__)
CLIENTS = [
    ("core", "compute_client"),
    ("core", "virtual_network_client"),
    ("core", "blockstorage_client"),
    ("work_requests", "work_request_client"),
    ("identity", "identity_client"),
    ("limits", "limits_client"),
    ("file_storage", "file_storage_client"),
    ("object_storage", "object_storage_client"),
]


def value(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def words(name):
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


class Operation:
    def __init__(self, package, base, function):
        self.package, self.name = package, function.name
        self.query, self.headers = [], []
        self.body = self.reply = self.path = self.method = None
        doc = ast.get_docstring(function) or ""
        argument = None
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                target = node.targets[0].id
                if target == "resource_path":
                    self.path = base.rstrip("/") + value(node.value)
                elif target == "method":
                    self.method = value(node.value)
                elif target in ("query_params", "header_params") and isinstance(node.value, ast.Dict):
                    keys = [value(key) for key in node.value.keys]
                    setattr(self, "query" if target == "query_params" else "headers", keys)
            elif isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg == "response_type":
                        self.reply = value(keyword.value)
                    elif keyword.arg == "body":
                        text = ast.unparse(keyword.value)
                        argument = re.sub(r"kwargs\.get\('(\w+)'\)", r"\1", text)
        if argument:
            found = re.search(r":param (\S+) %s:" % re.escape(argument), doc)
            self.body = found.group(1).rpartition(".")[2] if found else argument
        positional = [a.arg for a in function.args.args if a.arg not in ("self", argument)]
        self.needed = [words(name) for name in positional if words(name) in self.query]
        self.body_needed = argument in [a.arg for a in function.args.args]
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(self.path or ""))
        self.pattern = re.compile("^%s$" % pattern)


def operations():
    found = []
    for package, client in CLIENTS:
        with open(os.path.join(ROOT, package, client + ".py")) as file:
            source = file.read()
        base = re.search(r"'base_path': '([^']*)'", source).group(1)
        tree = ast.parse(source)
        (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)][:1]
        for node in body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                operation = Operation(package, base, node)
                if operation.path and operation.method:
                    found.append(operation)
    return found


class Model:
    """One model: the wire names of its fields, their types, which are required, and their words."""

    def __init__(self, package, name):
        kind = getattr(importlib.import_module("oci.%s.models" % package), name)
        empty = kind()
        self.fields = {}
        for attribute, type_ in empty.swagger_types.items():
            member = getattr(kind, attribute, None)
            doc = (member.__doc__ or "") if isinstance(member, property) else ""
            allowed = re.search(r"Allowed values for this property are: (.*)", doc)
            choice = re.findall(r'"([^"]+)"', allowed.group(1)) if allowed else None
            self.fields[empty.attribute_map[attribute]] = (type_, "**[Required]**" in doc, choice)
        self.discriminator, self.subtypes = None, {}
        if "get_subtype" in kind.__dict__:
            source = inspect.getsource(kind.get_subtype)
            mark = re.search(r"object_dictionary\['(\w+)'\]", source)
            self.discriminator = mark.group(1) if mark else None
            self.subtypes = dict(re.findall(r"type == '([^']+)':\s+return '(\w+)'", source))


MODELS = {}


def model(package, name):
    if (package, name) not in MODELS:
        MODELS[package, name] = Model(package, name)
    return MODELS[package, name]
