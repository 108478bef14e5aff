# Lets the numbers of jobs go on where they were. $1: the next one; $2: a partition.
set -eu
next() { scontrol show config | awk '$1 == "NEXT_JOB_ID" { print $3 }'; }
restart() {
    systemctl restart slurmctld.service
    until scontrol ping >/dev/null 2>&1; do sleep 0.2; done
}
conf=/etc/slurm/slurm.conf
[ "$(next)" -lt "$1" ] || exit 0
cp -p $conf $conf.kiln-upgrade
trap 'mv $conf.kiln-upgrade $conf; restart' EXIT
echo "FirstJobId=$1" >>$conf
restart
# slurmctld counts on from the newest job that it has seen.
id=$(runuser -u slurm -- sbatch --parsable --hold --chdir=/ --output=/dev/null --partition="$2" --job-name=kiln-upgrade --wrap=true)
scancel "$id"
