# Only the packages of a lock can be installed from now on, in just the versions of the lock.
# Standard input: name, version, architecture and hash of each, separated by tabs; `-` for one without a hash.
# The hashes are of what rpm has when a package is installed; repositories do not tell them. They are compared at the end.
set -eu
lock=/run/kiln.lock
conf=/etc/dnf/dnf.conf
before=/etc/dnf/kiln-before-lock.conf
cat >$lock
there=$(dnf -q --refresh --setopt='*.skip_if_unavailable=0' --setopt=retries=3 repoquery \
    --queryformat '%{name}\t%{evr}\t%{arch}' '*')
# What is there: in the package sources, or installed already.
{
    printf '%s\n' "$there"
    rpm -qa --queryformat '%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\t%{ARCH}\n'
    echo =
    cat $lock
} | awk -F '\t' '
    $0 == "=" { locked = 1; next }
    # Some versions of dnf write the epoch 0.
    { sub(/^0:/, "", $2) }
    !locked { there[$1, $2, $3] = 1; next }
    $4 != "-" && !(($1, $2, $3) in there) { gone = gone ", " $1 " " $2 }
    END {
        if (gone != "") print "no package source has " substr(gone, 3)
        exit gone != ""
    }'
[ -e $before ] || cp -p $conf $before
# For all repositories: what is not in the list cannot be installed.
awk -F '\t' '
    FNR == NR {
        if ($4 == "-") next
        if ($2 !~ /:/) $2 = "0:" $2
        list = list (list == "" ? "" : ",") $1 "-" $2 "." $3
        next
    }
    { print }
    /^\[main\]/ { print "includepkgs=" list }' $lock $before >$conf.kiln
grep -q '^includepkgs=' $conf.kiln || {
    echo "$conf has no section [main]" >&2
    exit 1
}
mv $conf.kiln $conf
rm -f $lock
