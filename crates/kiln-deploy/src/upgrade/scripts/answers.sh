# Starts Slurm's daemons where they do not run, and waits until they answer. The arguments: their units.
set -eu
systemctl start "$@" kilnd.service
end=$(($(date +%s) + 60))
until sacctmgr --noheader show cluster >/dev/null 2>&1 && scontrol ping >/dev/null 2>&1; do
    if [ "$(date +%s)" -ge $end ]; then
        echo "Slurm does not answer" >&2
        exit 1
    fi
    sleep 0.3
done
