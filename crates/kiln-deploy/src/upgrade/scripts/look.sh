# Prints whether the state volume is mounted, and the upgrade that was begun and not ended.
state=/var/lib/state
mountpoint -q $state && echo mounted
for dir in $state/upgrades/*; do
    if [ -e "$dir/set-aside" ] && [ ! -e "$dir/done" ]; then echo "open $dir"; fi
done
