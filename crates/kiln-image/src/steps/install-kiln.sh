# Standard input: the binary; argument: its SHA-256. A connection that breaks ends the input like a whole one does.
set -eu
new=$(mktemp /usr/local/bin/.kiln.XXXXXX)
trap 'rm -f "$new"' EXIT
cat >"$new"
printf '%s  %s\n' "$1" "$new" | sha256sum --check --status || {
    echo 'the copy of kiln is incomplete' >&2
    exit 1
}
chmod 755 "$new"
mv "$new" /usr/local/bin/kiln
