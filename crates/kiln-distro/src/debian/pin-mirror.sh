# Argument: the mirror.
set -eu
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] || continue
    awk -v mirror="$1" '/^deb/ { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z+]+:\/\//) $i = mirror } { print }' "$list" >"$list.new"
    mv "$list.new" "$list"
done
for sources in /etc/apt/sources.list.d/*.sources; do
    [ -f "$sources" ] || continue
    awk -v mirror="$1" '/^URIs:/ { print "URIs: " mirror; next } { print }' "$sources" >"$sources.new"
    mv "$sources.new" "$sources"
done
