# Removes the sources that Kiln has written. First argument `system`: the sources that the system came with are in use; else
# they are not, and dnf passes over them because of how their names end. Other arguments: the names of sources whose files,
# with credentials, will be in /run/kiln-sources, in memory: what was once on a disk can be read from its free blocks.
set -eu
off=.kiln.disabled
# cloud-init can write sources at the first boot: it must be done now. Where it does nothing in
# this boot (it found no data, or was installed just now), it never says that it is done.
first=$(systemctl show --property=ActiveState --value cloud-init-local.service 2>/dev/null || true)
# Its later stages run also if the first one has failed.
case $first in active | activating | failed) timeout 300 cloud-init status --wait >/dev/null 2>&1 || true ;; esac
mkdir -p /etc/yum.repos.d /etc/pki/rpm-gpg
cd /etc/yum.repos.d
# Keys that dnf has imported for Kiln's sources go with them: rpm would trust them for all others, too.
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
for key in /etc/pki/rpm-gpg/kiln-*; do
    [ -e "$key" ] || continue
    for id in $(gpg --batch --with-colons --show-keys "$key" | awk -F : '$1 == "pub" { print tolower(substr($5, 9)) }'); do
        rpm -qa gpg-pubkey --queryformat '%{NAME}-%{VERSION}-%{RELEASE}\n' | grep -e "$id-" | xargs -r rpm -e
    done
done
rm -rf "$GNUPGHOME"
rm -rf kiln-* /etc/pki/rpm-gpg/kiln-* /run/kiln-sources
system=$1
shift
for name; do ln -s "/run/kiln-sources/$name.repo" "kiln-$name.repo"; done
if [ "$system" = system ]; then
    for file in *.repo$off; do [ ! -e "$file" ] || mv "$file" "${file%"$off"}"; done
    exit
fi
for file in *.repo; do
    case $file in kiln-*) continue ;; esac
    [ ! -e "$file" ] || mv "$file" "$file$off"
done
# For the next step: an update of the system's own release package brings its repositories back.
: >kiln-only
