# Lists installed packages, a line each: name, version, architecture and the SHA-256 of the package's header, which has the hashes of
# all its files; rpm has it as long as the package is installed. Without one: `(none)`. Keys count as packages to rpm.
set -eu
rpm -qa --queryformat '%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\t%{ARCH}\t%{SHA256HEADER}\n' |
    grep -v '^gpg-pubkey	' | sort
