# Arguments: units to enable, `--`, units to disable. Units that are not there are passed over.
set -eu
verb=enable
/usr/local/bin/kiln node install-units
for unit; do
    if [ "$unit" = -- ]; then
        verb=disable
    # Some services come with a script of old only.
    elif [ -e "/usr/lib/systemd/system/$unit" ] || [ -e "/etc/init.d/${unit%.service}" ]; then
        systemctl --quiet "$verb" "$unit"
    fi
done
