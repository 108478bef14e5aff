# Nothing of the build instance may be left: no identity, no key, no log, no cache.
# Arguments: files to remove and directories to empty, which services leave behind when they are installed.
set -eu
for path; do
    if [ -d "$path" ]; then find "$path" -mindepth 1 -delete; else rm -f "$path"; fi
done
rm -rf /root/.ssh /root/.*_history /home/*/.*_history /etc/ssh/ssh_host_* /var/lib/kiln /tmp/* /var/tmp/*
# cloud-init keeps what it was told, host key and all, and has given the builder's key to its own user.
rm -rf /var/lib/cloud/instance /var/lib/cloud/instances /var/lib/cloud/data /var/lib/cloud/sem /home/*/.ssh
rm -f /etc/sudoers.d/90-cloud-init-users
# It would write the seed again when the system shuts down.
systemctl stop systemd-random-seed.service 2>/dev/null || true
rm -f /etc/hostname /var/lib/dbus/machine-id /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
# The addresses that it had.
rm -f /var/lib/dhcp/*.leases /var/lib/dhclient/*.lease* /var/lib/NetworkManager/*.lease /var/lib/NetworkManager/secret_key
find /var/log -type f -delete
rm -rf /var/log/journal
: >/etc/machine-id
sync
