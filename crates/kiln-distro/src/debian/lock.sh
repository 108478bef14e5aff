# Only the packages of a lock can be installed from now on, in just the versions of the lock.
# Standard input: name, version, architecture and SHA-256 of each, separated by tabs; `-` for one without a hash.
# Argument: the directory with kept packages, or an empty one.
set -eu
kept=$1
lock=/etc/apt/kiln.lock
conf=/etc/apt/apt.conf.d/zz-kiln-lock
preferences=/etc/apt/preferences.d/kiln-lock
cat >$lock
printf 'APT::Get::allow-Downgrades "true";\n' >$conf
if [ -n "$kept" ]; then
    chmod -R a+rX "$kept"
    printf 'deb [trusted=yes] file:%s ./\n' "$kept" >/etc/apt/kiln-kept.list
    printf 'Dir::Etc::sourcelist "/etc/apt/kiln-kept.list";\nDir::Etc::sourceparts "-";\n' >>$conf
fi
# shellcheck disable=SC2086
apt-get -q $lax -o Acquire::Languages=none -o Acquire::Retries=3 update
# What there is: in the package sources with a hash, or installed without one.
{
    awk -F '\t' '$4 != "-" { print $1 ":" $3 "=" $2 }' $lock | xargs -n 100 apt-cache show --no-all-versions || true
    echo
    # No line of the lists begins with a tab.
    sed 's/^/\t/' $lock
} 2>/dev/null | awk -F '\t' '
    function done() {
        if (name != "") {
            there[name, version, architecture] = 1
            if (sum != "") sums[name, version, architecture] = sums[name, version, architecture] " " sum
        }
        name = version = architecture = sum = ""
    }
    /^Package: / { name = substr($0, 10) }
    /^Version: / { version = substr($0, 10) }
    /^Architecture: / { architecture = substr($0, 15) }
    /^SHA256: / { sum = substr($0, 9) }
    /^$/ { done() }
    /^\t./ && $5 != "-" {
        key = $2 SUBSEP $3 SUBSEP $4
        if (!(key in there)) gone = gone ", " $2 " " $3
        else if ((key in sums) && index(sums[key] " ", " " $5 " ") == 0) other = other ", " $2 " " $3
    }
    END {
        if (gone != "") print "no package source has " substr(gone, 3)
        if (other != "") print "package sources have another file with another hash for " substr(other, 3)
        exit (gone != "" || other != "")
    }'
{
    printf 'Package: *\nPin: release *\nPin-Priority: -1\n'
    awk -F '\t' '$4 != "-" { print "\nPackage: " $1 "\nPin: version " $2 "\nPin-Priority: 1001" }' $lock
} >$preferences
rm -f $lock
