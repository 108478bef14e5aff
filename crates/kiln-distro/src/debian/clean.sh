set -eu
rm -f /usr/sbin/policy-rc.d
apt-get -q clean
# Of a lock.
rm -f /etc/apt/kiln.lock /etc/apt/kiln-kept.list /etc/apt/preferences.d/kiln-lock /etc/apt/apt.conf.d/zz-kiln-lock
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/lib/dpkg/*-old
