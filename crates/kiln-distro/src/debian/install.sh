# Arguments: the packages.
set -eu
# Nothing starts here, so systemd need not read all units again after each package: that is a third of the time.
export DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1
apt -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 install -- "$@"
