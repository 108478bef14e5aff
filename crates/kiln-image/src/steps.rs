//! The steps that turn a booted source system into an image, as programs for the build instance. They are
//! constants; what comes from the file is passed on standard input or as arguments.

pub struct Step {
    pub says: &'static str,
    pub script: &'static str,
}

/// Standard input: the binary; argument: its SHA-256. A connection that breaks ends the input like a whole one does.
pub const INSTALL_KILN: Step = Step {
    says: "copying kiln",
    script: r#"set -eu
new=$(mktemp /usr/local/bin/.kiln.XXXXXX)
trap 'rm -f "$new"' EXIT
cat >"$new"
printf '%s  %s\n' "$1" "$new" | sha256sum --check --status || {
    echo 'the copy of kiln is not whole' >&2
    exit 1
}
chmod 755 "$new"
mv "$new" /usr/local/bin/kiln"#,
};

/// Argument: the mirror. Every package source is pointed at it; suites and components stay.
pub const PIN_MIRROR: Step = Step {
    says: "pointing package sources at the mirror",
    script: r#"set -eu
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] || continue
    awk -v mirror="$1" '/^deb/ { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z+]+:\/\//) $i = mirror } { print }' "$list" >"$list.new"
    mv "$list.new" "$list"
done
for sources in /etc/apt/sources.list.d/*.sources; do
    [ -f "$sources" ] || continue
    awk -v mirror="$1" '/^URIs:/ { print "URIs: " mirror; next } { print }' "$sources" >"$sources.new"
    mv "$sources.new" "$sources"
done"#,
};

pub const UPDATE: Step = Step {
    says: "updating packages",
    script: r"set -eu
# No service may start while the image is made.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o Acquire::Check-Valid-Until=false -o Acquire::Retries=3 update
apt-get -q -y -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 dist-upgrade",
};

/// Arguments: the packages.
pub const INSTALL: Step = Step {
    says: "installing packages",
    script: r#"set -eu
export DEBIAN_FRONTEND=noninteractive
exec apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 install -- "$@""#,
};

/// Kiln decides at configuration which of these run on a node.
pub const SERVICES: Step = Step {
    says: "settling services",
    script: r"set -eu
for unit in mariadb munge slurmctld slurmd slurmdbd nftables; do
    if [ -e /usr/lib/systemd/system/$unit.service ]; then systemctl --quiet disable $unit.service; fi
done
/usr/local/bin/kiln node install-units
systemctl --quiet enable ssh.service",
};

/// Nothing of the build instance may be left: no identity, no key, no log, no cache.
pub const CLEAN: Step = Step {
    says: "cleaning",
    script: r"set -eu
rm -f /usr/sbin/policy-rc.d
apt-get -q clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/lib/dpkg/*-old
rm -rf /var/lib/mysql && install -d -o mysql -g mysql -m 0755 /var/lib/mysql 2>/dev/null || true
rm -rf /root/.ssh /root/.bash_history /etc/munge/munge.key /etc/ssh/ssh_host_* /var/lib/kiln /tmp/* /var/tmp/*
# cloud-init keeps what it was told, host key and all, and has given the builder's key to its own user.
rm -rf /var/lib/cloud/instance /var/lib/cloud/instances /var/lib/cloud/data /var/lib/cloud/sem /home/*/.ssh
rm -f /etc/sudoers.d/90-cloud-init-users
rm -f /etc/hostname /var/lib/dbus/machine-id /var/lib/systemd/random-seed /etc/slurm/slurm.conf
find /var/log -type f -delete
rm -rf /var/log/journal
: >/etc/machine-id
sync",
};

pub const LIST_PACKAGES: [&str; 3] = ["dpkg-query", "--show", "--showformat=${Package}\\t${Version}\\n"];
