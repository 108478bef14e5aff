"""The official client as one lasting process: starting it takes longer than most of what it does.

Its argument is the cloud; it keeps the first login for all that follows. Reads commands, one a line, and answers each
with one JSON object a line ({"status": ..., "out": ..., "err": ...}).
"""

import contextlib
import io
import json
import logging
import shlex
import sys

from openstackclient import shell


def run(command):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = shell.main(["--os-cloud", sys.argv[1], *shlex.split(command)])
        except SystemExit as end:
            status = end.code
    # Every run adds its own, which write where that run's output went.
    logging.getLogger().handlers.clear()
    return {"status": status or 0, "out": out.getvalue(), "err": err.getvalue()}


for line in sys.stdin:
    print(json.dumps(run(line)), flush=True)
