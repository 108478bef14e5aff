# Stops Slurm's daemons and puts the data of the old ones back in its place. $1: the directory; the others: the units, in
# their order.
set -eu
dir=$1
shift
touch "$dir/going-back"
systemctl stop kilnd.service "$@"
new=$dir/newer-$(date +%Y%m%d-%H%M%S)
for part in slurmctld mysql; do
    [ -d "$dir/$part" ] || continue
    if [ -e "/var/lib/state/$part" ]; then
        mkdir -p "$new"
        mv -T "/var/lib/state/$part" "$new/$part"
    fi
    mv -T "$dir/$part" "/var/lib/state/$part"
done
sync
