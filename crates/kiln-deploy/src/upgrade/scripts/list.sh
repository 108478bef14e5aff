# Prints what slurmdbd knows of users and limits, a line each. $1: the cluster, $2: what is asked of a QOS.
set -eu
show() {
    lines=$(sacctmgr --noheader --parsable2 show "$@" | sort)
    [ -z "$lines" ] || printf '%s\n' "$lines" | sed "s/^/$1: /"
}
show qos format="$2"
show account format=Account,Description,Organization
show user withcoord format=User,DefaultAccount,AdminLevel,Coordinators
show association cluster="$1" format=Account,User,Partition,ParentName,Fairshare,Priority,GrpJobs,GrpTRES,GrpSubmitJobs,GrpWall,GrpTRESMins,GrpTRESRunMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmitJobs,MaxWall,MaxTRESMins,QOS,DefaultQOS
