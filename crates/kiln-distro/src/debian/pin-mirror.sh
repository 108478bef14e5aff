# Arguments: the mirror of security suites, and that of all others. An empty one leaves the addresses as they are.
set -eu
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] || continue
    awk -v security="$1" -v others="$2" '
        /^deb/ {
            for (i = 2; i < NF; i++) if ($i ~ /^[a-z+]+:\/\//) {
                mirror = ($(i + 1) ~ /-security$/) ? security : others
                if (mirror != "") $i = mirror
            }
        }
        { print }' "$list" >"$list.new"
    mv "$list.new" "$list"
done
for sources in /etc/apt/sources.list.d/*.sources; do
    [ -f "$sources" ] || continue
    awk -v security="$1" -v others="$2" '
        # The stanza with these suites and this mirror. Lines that begin with a space continue the one above.
        function stanza(suites, mirror,    i, replaced) {
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^[ \t]/ && replaced) continue
                replaced = 1
                if ($i ~ /^URIs:/ && mirror != "") print "URIs: " mirror
                else if ($i ~ /^Suites:/) print "Suites:" suites
                else { print $i; replaced = 0 }
            }
            print ""
        }
        BEGIN { RS = ""; FS = "\n" }
        {
            text = secure = plain = ""
            for (i = 1; i <= NF; i++) if ($i ~ /^Suites:/) {
                text = substr($i, 8)
                while (i < NF && $(i + 1) ~ /^[ \t]/) text = text $(++i)
            }
            count = split(text, suite, " ")
            for (i = 1; i <= count; i++) {
                if (suite[i] ~ /-security$/) secure = secure " " suite[i]
                else plain = plain " " suite[i]
            }
            if (secure != "") stanza(secure, security)
            if (plain != "" || secure == "") stanza(plain, others)
        }' "$sources" >"$sources.new"
    mv "$sources.new" "$sources"
done
