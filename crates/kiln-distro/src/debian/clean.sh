set -eu
rm -f /usr/sbin/policy-rc.d
apt-get -q clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/lib/dpkg/*-old
