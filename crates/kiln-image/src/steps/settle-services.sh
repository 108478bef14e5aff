# Arguments: units to enable, `--`, units to disable. Units that are not there are passed over.
set -eu
verb=enable
/usr/local/bin/kiln node install-units
for unit; do
    if [ "$unit" = -- ]; then
        verb=disable
    elif [ -e "/usr/lib/systemd/system/$unit" ]; then
        systemctl --quiet "$verb" "$unit"
    fi
done
