"""A program of a user: a job over Slurm's REST API, by the client that a generator has made from the API's own description.

Arguments: the directory of the client, the address of the API, the certificate of its authority, the user. The user's token
comes on standard input. Prints the job's number.
"""

import importlib
import ssl
import sys
from pathlib import Path

folder, address, certificate, user = sys.argv[1:]
sys.path.insert(0, str(Path(folder).parent))
NAME = Path(folder).name


def of(module):
    return importlib.import_module(f"{NAME}.{module}")


def as_control(request):
    # The test knows the address, the certificate names the node.
    request.extensions["sni_hostname"] = "control"


client = of("client").Client(
    base_url=address,
    headers={"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": sys.stdin.read().strip()},
    verify_ssl=ssl.create_default_context(cafile=certificate),
    httpx_args={"event_hooks": {"request": [as_control]}},
    raise_on_unexpected_status=True,
)
models = of("models")

pings = of("api.slurm.slurm_v0_0_38_ping").sync(client=client)
assert pings.pings[0].ping == "UP", pings

job = models.V0038JobProperties(
    environment=models.V0038JobPropertiesEnvironment.from_dict({"PATH": "/usr/bin:/bin"}),
    name="by-client",
    partition="standard",
    tasks=1,
    memory_per_node=10,
    current_working_directory=f"/home/{user}",
    standard_output=f"/home/{user}/by-client",
)
submission = models.V0038JobSubmission(script="#!/bin/sh\nid -un\n", job=job)
answer = of("api.slurm.slurm_v0_0_38_submit_job").sync(client=client, body=submission)
assert answer.job_id, answer
print(answer.job_id)
