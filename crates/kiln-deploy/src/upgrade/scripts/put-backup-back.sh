# Puts the backup of before the upgrade in place, once. $1: the directory of the upgrade.
set -eu
if [ ! -e "$1/put-back" ]; then
    kiln --json node backup put-back "$(cat "$1/backup")"
    touch "$1/put-back"
    sync
fi
