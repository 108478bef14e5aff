# Arguments: units to enable, `--`, units to disable. Units that are not there are passed over.
set -eu
/usr/local/bin/kiln node install-units
verb=enable enable='' disable=''
for unit; do
    if [ "$unit" = -- ]; then
        verb=disable
    elif [ -e "/usr/lib/systemd/system/$unit" ]; then
        if [ "$verb" = enable ]; then enable="$enable $unit"; else disable="$disable $unit"; fi
    # Some services come with a script of old only.
    elif [ -e "/etc/init.d/${unit%.service}" ]; then
        systemctl --quiet --no-reload "$verb" "$unit"
    fi
done
# All at once, and without what scripts of old would need: systemd passes over a script that has a unit, and each would take
# half a second. What runs now is shut down next, and need not know.
export SYSTEMCTL_SKIP_SYSV=1
# shellcheck disable=SC2086
[ -z "$enable" ] || systemctl --quiet --no-reload enable $enable
# shellcheck disable=SC2086
[ -z "$disable" ] || systemctl --quiet --no-reload disable $disable
