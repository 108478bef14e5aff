# Arguments: the packages.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 install -- "$@"
