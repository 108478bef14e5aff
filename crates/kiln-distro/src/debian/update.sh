set -eu
# No service may start while the image is made.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# Nothing starts here, so systemd need not read all units again after each package: that is a third of the time.
export DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1
# A source that does not answer is an error, not a warning.
# Nobody reads descriptions here: without translations there is half as much to fetch and unpack.
# shellcheck disable=SC2086
apt-get -q $lax -o Acquire::Languages=none -o Acquire::Retries=3 --error-on=any update
# What a running system has of these is the old one until it reboots.
basic() { dpkg-query --show --showformat='${Package} ${Version}\n' libc6 'linux-image-*' 2>/dev/null | LC_ALL=C sort; }
basic >/run/kiln-before-update
apt -q -y -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 dist-upgrade
basic | LC_ALL=C comm -13 /run/kiln-before-update - >/run/kiln-reboot-for
