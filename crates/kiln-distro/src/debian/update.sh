# Arguments: options for reading the lists of packages.
set -eu
# No service may start while the image is made.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive
apt-get -q "$@" -o Acquire::Retries=3 update
apt-get -q -y -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 dist-upgrade
