set -eu
# Slurm and MariaDB keep their data on volumes that SELinux's policy knows nothing of: where it is enforced, they do not start.
# The package of the policy turns it on where this file is not there yet.
selinux=/etc/selinux/config
mkdir -p /etc/selinux
[ -s $selinux ] || printf 'SELINUX=permissive\nSELINUXTYPE=targeted\n' >$selinux
sed -i 's/^SELINUX=enforcing/SELINUX=permissive/' $selinux
# What a running system has of these is the old one until it reboots.
basic() { rpm -qa --queryformat '%{NAME} %{VERSION}-%{RELEASE}\n' glibc kernel-core 'kernel-*-core' systemd | LC_ALL=C sort; }
basic >/run/kiln-before-update
# With a lock, packages of the source image may have to become older.
verb=upgrade
[ ! -e /etc/dnf/kiln-before-lock.conf ] || verb=distro-sync
# A source that does not answer is an error. dnf may be set to go on without it, and to take an older package where the newest
# cannot be installed.
dnf -y --refresh --setopt='*.skip_if_unavailable=0' --setopt=best=1 --setopt=retries=3 --setopt=install_weak_deps=0 $verb
basic | LC_ALL=C comm -13 /run/kiln-before-update - >/run/kiln-reboot-for
