"""Compares exchanges with the contract: python3 check.py DIRECTORY. Its files have one JSON object on each line: method,
target, request, status, reply, retry_token. Prints what is wrong, and how many exchanges there were; ends with 1 if anything
is, or if there were none."""

import collections
import json
import pathlib
import re
import sys
import urllib.parse
from datetime import datetime

from contract import model, operations

PLAIN = {"str": str, "bool": bool, "int": int, "float": (int, float)}


class Checker:
    def __init__(self):
        self.operations = operations()
        self.seen = collections.Counter()

    def find(self, method, path):
        hits = [o for o in self.operations if o.method == method and o.pattern.match(path)]
        # A path with fewer parameters says more: /publicIps/actions/x is not /publicIps/{id}.
        return min(hits, key=lambda o: o.path.count("{"), default=None)

    def exchange(self, line):
        """All that is wrong with one exchange."""
        split = urllib.parse.urlsplit(line["target"])
        operation = self.find(line["method"], split.path)
        if operation is None:
            return ["no such operation: %s %s" % (line["method"], split.path)]
        self.seen[operation.name] += 1
        wrong = []
        query = urllib.parse.parse_qs(split.query, keep_blank_values=True)
        wrong += ["no such parameter: %s" % name for name in query if name not in operation.query]
        wrong += ["parameter missing: %s" % name for name in operation.needed if name not in query]
        if line.get("retry_token") and "opc-retry-token" not in operation.headers:
            wrong.append("takes no opc-retry-token")
        request, good = line.get("request"), 200 <= line["status"] < 300
        if operation.body is None or operation.body == "stream":
            if request is not None and operation.body is None:
                wrong.append("has a body")
        elif request is not None:
            self.value(operation.package, operation.body, request, "request", wrong, True)
        elif operation.body_needed:
            wrong.append("has no body")
        if good and operation.reply not in (None, "bytes", "stream"):
            self.value(operation.package, operation.reply, line.get("reply"), "reply", wrong, False)
        if not good:
            reply = line.get("reply") or {}
            for field in ("code", "message"):
                if not isinstance(reply.get(field), str):
                    wrong.append("a refusal without %s" % field)
        return ["%s: %s" % (operation.name, text) for text in wrong]

    def value(self, package, type_, value, at, wrong, asked):
        if value is None:
            if asked:
                wrong.append("%s: null" % at)
            return
        if found := re.fullmatch(r"list\[(.*)\]", type_):
            if not isinstance(value, list):
                wrong.append("%s: not a list" % at)
                return
            for index, one in enumerate(value):
                self.value(package, found[1], one, "%s[%d]" % (at, index), wrong, asked)
        elif found := re.fullmatch(r"dict\(([^,]*), (.*)\)", type_):
            if not isinstance(value, dict):
                wrong.append("%s: not a map" % at)
                return
            for key, one in value.items():
                self.value(package, found[2], one, "%s.%s" % (at, key), wrong, asked)
        elif type_ == "object":
            pass
        elif type_ == "datetime":
            try:
                datetime.fromisoformat(value.replace("Z", "+00:00"))
            except (AttributeError, ValueError):
                wrong.append("%s: %r is not a time" % (at, value))
        elif type_ in PLAIN:
            number = type_ in ("int", "float") and isinstance(value, bool)
            if number or not isinstance(value, PLAIN[type_]):
                wrong.append("%s: %r is not %s" % (at, value, type_))
        else:
            self.fields(package, type_, value, at, wrong, asked)

    def fields(self, package, name, value, at, wrong, asked):
        if not isinstance(value, dict):
            wrong.append("%s: not an object" % at)
            return
        kind = model(package, name)
        if kind.discriminator:
            word = value.get(kind.discriminator)
            if word not in kind.subtypes:
                wrong.append("%s: %s is %r, none of %s" % (at, kind.discriminator, word, sorted(kind.subtypes)))
                return
            kind = model(package, kind.subtypes[word])
        wrong += ["%s: no such field: %s" % (at, field) for field in value if field not in kind.fields]
        for field, (type_, required, choice) in kind.fields.items():
            inner = value.get(field)
            if required and inner is None:
                wrong.append("%s: field missing: %s" % (at, field))
            if field not in value:
                continue
            if choice and inner is not None:
                for word in inner if isinstance(inner, list) else [inner]:
                    if word not in choice:
                        wrong.append("%s.%s: %r is none of %s" % (at, field, word, choice))
            self.value(package, type_, inner, "%s.%s" % (at, field), wrong, asked)


def main():
    checker, wrong, count = Checker(), collections.Counter(), 0
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        for text in path.read_text().splitlines():
            line = json.loads(text) if text else None
            # Neither is in the SDK's clients.
            if line is None or line["target"].startswith(("/v1/x509", "/opc/")):
                continue
            count += 1
            wrong.update(checker.exchange(line))
    for text, times in wrong.most_common():
        print("%d times: %s" % (times, text))
    print("%d exchanges of %d operations, %d findings" % (count, len(checker.seen), len(wrong)))
    return len(wrong) > 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())
