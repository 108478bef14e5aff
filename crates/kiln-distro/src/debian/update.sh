set -eu
# No service may start while the image is made.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive
# A source that does not answer is an error, not a warning.
apt-get -q -o Acquire::Retries=3 --error-on=any update
apt-get -q -y -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 dist-upgrade
