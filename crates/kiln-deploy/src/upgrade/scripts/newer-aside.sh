# Moves the database that the newer daemons have written out of the way, once. $1: the directory of the upgrade.
set -eu
if [ ! -e "$1/newer-mysql" ] && [ ! -e "$1/put-back" ]; then
    mkdir -p "$1"
    systemctl stop mariadb.service
    [ ! -e /var/lib/state/mysql ] || mv -T /var/lib/state/mysql "$1/newer-mysql"
    sync
fi
