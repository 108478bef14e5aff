# Standard input: the content of a file; arguments: its path, mode and USER:GROUP.
set -eu
mkdir -p "${1%/*}"
new=$(mktemp "${1%/*}/.kiln.XXXXXX")
trap 'rm -f "$new"' EXIT
cat >"$new"
chown "$3" "$new"
chmod "$2" "$new"
mv "$new" "$1"
