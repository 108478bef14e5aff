set -eu
# Of a lock.
if [ -e /etc/dnf/kiln-before-lock.conf ]; then mv /etc/dnf/kiln-before-lock.conf /etc/dnf/dnf.conf; fi
dnf -q clean all
# With those of repositories that are not there any more.
rm -rf /var/cache/dnf /var/cache/yum /var/lib/dnf/repos
rm -f /etc/yum.repos.d/kiln-only /var/log/dnf* /var/log/hawkey* /var/lib/rpm/__db.*
