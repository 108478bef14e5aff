# Prints what must be there after an upgrade as before it, a line each. $1: the cluster.
set -eu
squeue --all --array --noheader --format='job: %i|%T|%u|%j'
show() {
    lines=$(sacctmgr --noheader --parsable2 show "$@")
    [ -z "$lines" ] || printf '%s\n' "$lines" | sed "s/^/$1: /" | sort -u
}
show qos format=Name
show account format=Account
show user format=User
show association cluster="$1" format=Account,User,Partition
scontrol show node --oneliner | sed 's/^/node: /'
printf 'records: '
mariadb --batch --skip-column-names --execute="SELECT COUNT(*) FROM slurm_acct_db.\`$1_job_table\`"
