# Prints whether the state volume is mounted, which upgrades were begun and not ended, and whose data is aside.
state=/var/lib/state
mountpoint -q $state && echo mounted
for dir in $state/upgrades/*; do
    if [ -e "$dir/set-aside" ] && [ ! -e "$dir/done" ]; then echo "open $dir"; fi
    if [ -e "$dir/going-back" ] || [ -d "$dir/mysql" ]; then echo "aside $dir"; fi
done
true
