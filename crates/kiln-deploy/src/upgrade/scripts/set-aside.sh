# Stops Slurm's daemons and puts their data aside. $1: the directory; the others: the units, in their order.
set -eu
dir=$1
shift
touch "$dir/set-aside"
systemctl stop kilnd.service "$@"
for part in slurmctld mysql; do
    [ -e "$dir/$part" ] || mv -T "/var/lib/state/$part" "$dir/$part"
done
sync
