"""Wait for Neutron's agents, then see to what virtual machines need besides:
ready.py CLOUDS_YAML

Flavors with memory enough to boot, a volume type, and this machine as the
gateway of the external network: it can then reach floating IPs, and what is
behind them can reach out through it.
"""

import os
import subprocess
import sys
import time

import openstack

AGENTS = {"bridge-agent", "neutron-dhcp-agent", "neutron-l3-agent"}
# Debian 12's kernel 6.1.192 crashes when it needs a page of ext4's own that it has dropped for want of memory.
FLAVORS = (("vm.1536", 1, 1536, 4), ("vm.1536.2", 2, 1536, 4), ("vm.2048", 1, 2048, 4))
TABLE = """
table ip openstack-vms {{
  chain nat {{ type nat hook postrouting priority srcnat;
    ip saddr {cidr} oifname "{out}" masquerade; }}
}}
"""


def run(*command, check=True, **kwargs):
    return subprocess.run(command, check=check, text=True, **kwargs)


os.environ["OS_CLIENT_CONFIG_FILE"] = sys.argv[1]
cloud = openstack.connect(cloud="admin")
deadline = time.monotonic() + 180
while True:
    alive = {agent.binary for agent in cloud.network.agents() if agent.is_alive}
    if AGENTS <= alive:
        break
    if time.monotonic() > deadline:
        sys.exit(f"gave up waiting for {sorted(AGENTS - alive)}")
    time.sleep(0.5)

have = {flavor.name for flavor in cloud.compute.flavors()}
for name, vcpus, ram, disk in FLAVORS:
    if name not in have:
        cloud.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)
if not any(kind.name == "file" for kind in cloud.block_storage.types()):
    cloud.block_storage.create_type(name="file")

network = cloud.network.find_network("public")
subnet = cloud.network.get_subnet(network.subnet_ids[0])
bridge = ("brq" + network.id)[:14]
address = f"{subnet.gateway_ip}/{subnet.cidr.split('/')[1]}"
if run("ip", "link", "show", bridge, check=False, capture_output=True).returncode:
    run("ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0")
run("ip", "link", "set", bridge, "mtu", str(network.mtu), "up")
run("ip", "address", "replace", address, "dev", bridge)
route = run("ip", "-o", "route", "show", "default", capture_output=True).stdout.split()
if "dev" in route:
    run("nft", "delete", "table", "ip", "openstack-vms", check=False,
        stderr=subprocess.DEVNULL)
    run("nft", "-f", "-", input=TABLE.format(
        cidr=subnet.cidr, out=route[route.index("dev") + 1]))
