# Prints what slurmdbd does: the state of its unit, the seconds since its start, whether it answers, its last words.
systemctl show --property=ActiveState,NRestarts,MainPID slurmdbd.service
pid=$(systemctl show --property=MainPID --value slurmdbd.service)
[ "${pid:-0}" = 0 ] || echo "Seconds=$(ps -o etimes= -p "$pid" 2>/dev/null | tr -d ' ')"
if timeout 20 sacctmgr --noheader show cluster >/dev/null 2>&1; then echo Answers=yes; fi
journalctl --quiet --no-pager --unit=slurmdbd.service --boot --output=cat --lines=8 2>/dev/null | sed 's/^/Said=/'
true
