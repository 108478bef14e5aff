# Gathers the files of all installed packages that the package sources have, with a list of them, in a directory.
# Argument: the directory.
set -eu
directory=$1
rm -rf "$directory"
mkdir -p "$directory"
cd "$directory"
# Those in a list, which have a hash.
dpkg-query --show --showformat='${db:Status-Abbrev}\t${Package}:${Architecture}=${Version}\n' |
    awk -F '\t' '$1 ~ /^.i/ { print $2 }' | xargs apt-cache show --no-all-versions 2>/dev/null |
    awk 'BEGIN { RS = ""; ORS = "\n\n" } /\nSHA256: / { print }' >Packages.found
awk '
    /^Package: / { name = $2 }
    /^Version: / { version = $2 }
    /^Architecture: / { architecture = $2 }
    /^$/ { if (name != "") print name ":" architecture "=" version; name = "" }' Packages.found >wanted
# Downloading as the sandbox user is not possible into a directory of root.
xargs -n 200 apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download <wanted >&2
# apt names a file NAME_VERSION_ARCHITECTURE.deb, with an epoch escaped.
awk '
    /^Package: / { name = $2 }
    /^Version: / { version = $2; gsub(/:/, "%3a", version) }
    /^Architecture: / { architecture = $2 }
    /^Filename: / { next }
    /^$/ { if (name != "") print "Filename: ./" name "_" version "_" architecture ".deb"; name = "" }
    { print }' Packages.found >Packages
rm -f Packages.found wanted
missing=$(awk '/^Filename: / { print $2 }' Packages | while read -r file; do [ -f "$file" ] || echo "$file"; done)
if [ -n "$missing" ]; then
    echo "these packages could not be kept:" $missing >&2
    exit 1
fi
