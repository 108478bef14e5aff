# Lists installed packages, a line each: name, version, architecture and the SHA-256 of the package's file.
# dpkg does not keep hashes; the lists of packages have them for as long as they are there. Without one: `-`.
set -eu
# Not those that were removed and have left their configuration.
installed=$(dpkg-query --show --showformat='${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n' |
    awk -F '\t' '$1 ~ /^.i/ { print $2 "\t" $3 "\t" $4 }')
{
    printf '%s\n' "$installed" | awk -F '\t' '{ print $1 ":" $3 "=" $2 }' | xargs apt-cache show --no-all-versions || true
    echo
    # No line of the lists begins with a tab.
    printf '%s\n' "$installed" | sed 's/^/\t/'
} 2>/dev/null | awk -F '\t' '
    /^Package: / { name = substr($0, 10) }
    /^Version: / { version = substr($0, 10) }
    /^Architecture: / { architecture = substr($0, 15) }
    /^SHA256: / { sum = substr($0, 9) }
    /^$/ { if (sum != "") hash[name, version, architecture] = sum; sum = "" }
    /^\t./ {
        key = $2 SUBSEP $3 SUBSEP $4
        print $2 "\t" $3 "\t" $4 "\t" ((key in hash) ? hash[key] : "-")
    }'
