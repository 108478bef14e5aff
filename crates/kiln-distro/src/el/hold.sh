# Arguments: packages that keep their version when others are updated, here and in what is built upon this. The plugin that dnf has
# for it is not in every image; what dnf is told not to see it does not install.
set -eu
missing=
for package; do rpm -q "$package" >/dev/null 2>&1 || missing="$missing $package"; done
if [ -n "$missing" ]; then
    echo "cannot hold what is not installed:$missing" >&2
    exit 1
fi
conf=/etc/dnf/dnf.conf
# A lock has put it aside; the end of the build puts it back.
[ ! -e /etc/dnf/kiln-before-lock.conf ] || conf=/etc/dnf/kiln-before-lock.conf
names=$(printf ',%s' "$@")
if grep -q '^excludepkgs=' $conf; then
    sed -i "s/^excludepkgs=.*/&$names/" $conf
else
    sed -i "s/^\\[main\\]/&\\nexcludepkgs=${names#,}/" $conf
fi
grep -q '^excludepkgs=' $conf || {
    echo "$conf has no section [main]" >&2
    exit 1
}
