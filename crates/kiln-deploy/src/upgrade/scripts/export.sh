# Writes down all that Slurm would lose. $1: the directory, which appears when all is in it; $2: the cluster;
# $3: the script that lists users and limits; $4: what is asked of a QOS.
set -eu
umask 077
mkdir -p "$(dirname "$1")"
rm -rf "$1.part"
mkdir "$1.part"
cd "$1.part"
sacctmgr dump "$2" file="$PWD/accounts.cfg" >dump.log
sh -c "$3" sh "$2" "$4" >accounts.txt
scontrol show node --oneliner >nodes.txt
scontrol show reservation >reservations.txt
scontrol show config | awk '$1 == "NEXT_JOB_ID" { print $3 }' >next-job-id
squeue --all --format='%.18i %.9P %.20j %.12u %.8T %.10M %.9l %.6D %R' >queue.txt
scontrol show job >jobs.txt
mkdir scripts
for id in $(squeue --all --noheader --states=PENDING --format=%A | sort -un); do
    # A job that was not submitted with a script has none.
    scontrol write batch_script "$id" "scripts/$id.sh" >/dev/null 2>&1 || true
done
sacct --allusers --duplicates --starttime=1970-01-02 --parsable2 --format=JobID,JobName,User,Account,Partition,QOS,Submit,Start,End,Elapsed,State,ExitCode,AllocTRES,NodeList,MaxRSS >history.txt
mariadb-dump --defaults-extra-file=/etc/kiln/database.cnf --single-transaction slurm_acct_db >database.sql
gzip database.sql
sync
mv -T "$1.part" "$1"
