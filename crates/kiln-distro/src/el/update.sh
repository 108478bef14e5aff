set -eu
# Slurm and MariaDB keep their data on volumes that SELinux's policy knows nothing of: where it is enforced, they do not start.
if [ -e /etc/selinux/config ]; then sed -i 's/^SELINUX=enforcing/SELINUX=permissive/' /etc/selinux/config; fi
# With a lock, packages of the source image may have to become older.
verb=upgrade
[ ! -e /etc/dnf/kiln-before-lock.conf ] || verb=distro-sync
# A source that does not answer is an error. dnf may be set to go on without it, and to take an older package where the newest
# cannot be installed.
exec dnf -y --refresh --setopt='*.skip_if_unavailable=0' --setopt=best=1 --setopt=retries=3 --setopt=install_weak_deps=0 $verb
