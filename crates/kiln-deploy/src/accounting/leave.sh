# Parts the cluster's state from its accounts, so that it can begin with others. The arguments: the units, in their order.
# A database that is here is kept beside. What slurmctld has numbered by its accounts goes; jobs there are none.
set -eu
state=/var/lib/state
begun=$state/accounting.leaving
if [ ! -e $begun ]; then
    jobs=$(squeue --all --array --noheader --format=%i)
    if [ -n "$jobs" ]; then
        echo "jobs:" $jobs >&2
        exit 1
    fi
    kiln --json node backup now --reason "before accounting has another place" >/dev/null
    touch $begun
fi
systemctl stop kilnd.service "$@"
for unit in "$@"; do
    case $unit in slurmctld.service) ;; *) systemctl disable --quiet "$unit" ;; esac
done
if [ -d $state/mysql ]; then mv -T $state/mysql "$state/mysql.left-$(date +%Y%m%d-%H%M%S)"; fi
cd $state/slurmctld
for kept in assoc_mgr_state assoc_usage qos_usage last_tres dbd.messages fed_mgr_state clustername; do
    rm -f "$kept" "$kept.old" "$kept.new"
done
rm -f $state/accounting
sync
rm -f $begun
