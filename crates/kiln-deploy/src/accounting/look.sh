# Prints where accounting is by the state volume, and the release of the slurmdbd that answers. $1: the script that asks
# for the place.
place=$(sh -c "$1")
[ -z "$place" ] || echo "place $place"
timeout 10 sacctmgr --noheader show configuration 2>/dev/null | sed -n 's/^SLURMDBD_VERSION *= */slurmdbd /p'
true
