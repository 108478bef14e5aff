# Prints what must be there after an upgrade as before it, a line each. $1: the cluster; $2: "own", if its database
# is here. Of another's database only what is of this cluster counts. Nothing of it is a user's own text, which could pass for a line.
set -eu
squeue --all --array --noheader --format='job: %i|%T|%u'
show() {
    lines=$(sacctmgr --noheader --parsable2 show "$@")
    [ -z "$lines" ] || printf '%s\n' "$lines" | sed "s/^/$1: /" | sort -u
}
if [ "$2" = own ]; then
    show qos format=Name
    show account format=Account
    show user format=User
fi
show association cluster="$1" format=Account,User,Partition
scontrol show node --oneliner | sed 's/^/node: /'
[ "$2" = own ] || exit 0
printf 'records: '
mariadb --batch --skip-column-names --execute="SELECT COUNT(*) FROM slurm_acct_db.\`$1_job_table\`"
