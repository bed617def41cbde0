# Ends a run. Its standard input is a pipe whose write end only the run's owner holds, so the end of
# the input is the end of the owner, however it came about. Its standard output is the run's lock:
# the run counts as alive until everything is gone.
#
# Input lines, written by launch.sh:  SIGNAL PID CONTENT-OF-/proc/PID/stat
# Argument: the run's directory.

# Whatever is meant for the owner (Ctrl-C, a closing terminal) reaches us through the pipe.
trap '' HUP INT QUIT TERM

directory=$1
servers=

# Reads state and start time out of a stat line; the command's name may hold blanks and brackets.
parse() {
    set -- ${1##*) }
    state=$1
    shift 19
    started=$1
}

# Is there a process $1 that started at $2? Otherwise its number may be somebody else's by now.
ours() {
    stat=
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null
    [ -n "$stat" ] || return 1
    parse "$stat"
    [ "$started" = "$2" ]
}

any_alive() {
    for server in $servers; do
        pid=${server#*:}
        ours "${pid%:*}" "${pid#*:}" && [ "$state" != Z ] && return 0
    done
    return 1
}

# Waits until no server is alive, but at most $1 twentieths of a second.
wait_for_servers() {
    left=$1
    while [ "$left" -gt 0 ] && any_alive; do
        sleep 0.05
        left=$((left - 1))
    done
}

while read -r signal pid stat; do
    parse "$stat"
    servers="$servers $signal:$pid:$started"
done

for server in $servers; do
    signal=${server%%:*}
    pid=${server#*:}
    if ours "${pid%:*}" "${pid#*:}"; then
        kill -s "$signal" -- "-${pid%:*}" 2>/dev/null
        # A stopped process takes no signal but KILL until it is continued.
        kill -s CONT -- "-${pid%:*}" 2>/dev/null
    fi
done
wait_for_servers 60
for server in $servers; do
    pid=${server#*:}
    ours "${pid%:*}" "${pid#*:}" && kill -s KILL -- "-${pid%:*}" 2>/dev/null
done
wait_for_servers 60

# A Postgres that was killed leaves its System V segment behind; line 7 of its pid file names it.
for pidfile in "$directory"/*/postmaster.pid; do
    [ -f "$pidfile" ] || continue
    segment=$(sed -n '7s/.* //p' "$pidfile")
    [ -n "$segment" ] && ipcrm -m "$segment" 2>/dev/null
done

rm -rf -- "$directory" 2>/dev/null || { sleep 0.2; rm -rf -- "$directory"; }
