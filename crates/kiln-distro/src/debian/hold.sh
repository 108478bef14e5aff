# Arguments: packages that keep their version when others are updated, here and in what is built upon this. apt would take names of
# packages that are not there, too.
set -eu
missing=
for package; do
    dpkg-query --show --showformat='${db:Status-Abbrev}\n' "$package" 2>/dev/null | grep -q '^.i' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "cannot hold what is not installed:$missing" >&2
    exit 1
fi
exec apt-mark hold -- "$@"
