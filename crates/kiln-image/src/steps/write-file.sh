# Standard input: the content of a file; arguments: its path and mode.
set -eu
mkdir -p "${1%/*}"
new=$(mktemp "${1%/*}/.kiln.XXXXXX")
trap 'rm -f "$new"' EXIT
cat >"$new"
chmod "$2" "$new"
mv "$new" "$1"
