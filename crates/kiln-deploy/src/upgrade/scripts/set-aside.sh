# Stops Slurm's daemons and puts their data aside. $1: the directory; the others: the units, in their order.
set -eu
dir=$1
shift
touch "$dir/set-aside"
systemctl stop kilnd.service "$@"
for part in slurmctld mysql; do
    [ -e "/var/lib/state/$part" ] || continue
    # The old daemons may have been started again since they lost their data: what they have made then is nobody's.
    to=$dir/$part
    [ ! -e "$to" ] || to=$to.empty-$(date +%Y%m%d-%H%M%S)
    mv -T "/var/lib/state/$part" "$to"
done
sync
