# Removes the sources that Kiln has written. First argument `system`: the sources that the system came with are in use; else
# they are not, and apt passes over them in silence because of how their names end. Other arguments: the names of sources
# whose credentials will be in /run/kiln-sources, in memory: what was once on a disk can be read from its free blocks.
set -eu
off=.kiln.disabled
# cloud-init writes sources at the first boot: it must be done now, and must not do it on nodes. Where it does nothing in
# this boot (it found no data, or was installed just now), it never says that it is done.
first=$(systemctl show --property=ActiveState --value cloud-init-local.service 2>/dev/null || true)
# Its later stages run also if the first one has failed.
case $first in active | activating | failed) timeout 300 cloud-init status --wait >/dev/null 2>&1 || true ;; esac
cd /etc/apt
rm -rf sources.list.d/kiln-* keyrings/kiln-* auth.conf.d/kiln-* /run/kiln-sources
mkdir -p sources.list.d keyrings auth.conf.d
rm -f /etc/cloud/cloud.cfg.d/90_kiln_sources.cfg
system=$1
shift
for name; do ln -s "/run/kiln-sources/$name.conf" "auth.conf.d/kiln-$name.conf"; done
if [ "$system" = system ]; then
    for file in sources.list$off sources.list.d/*$off; do
        [ ! -e "$file" ] || mv "$file" "${file%"$off"}"
    done
    exit
fi
for file in sources.list sources.list.d/*.list sources.list.d/*.sources; do
    [ ! -e "$file" ] || mv "$file" "$file$off"
done
if [ -d /etc/cloud/cloud.cfg.d ]; then
    printf 'apt:\n  preserve_sources_list: true\n' >/etc/cloud/cloud.cfg.d/90_kiln_sources.cfg
fi
