# Ends a run: kills its processes and removes its directory. Argument: the directory.
#
# Standard input is a pipe whose write end the run's owner holds, and each server until it runs. So
# the end of the input is the end of the owner, however it came about, and no server can slip
# through. Standard output is the run's lock: the run counts as alive until nothing is left of it.

# Whatever is meant for the owner (Ctrl-C, a closing terminal) reaches us through the pipe.
trap '' HUP INT QUIT TERM

directory=$1
while read -r _; do :; done

# The run's processes are those whose standard error is a log in its directory: the servers, and
# what they started. A shell that somebody only looks around with is not among them.
processes() {
    for log in /proc/[0-9]*/fd/2; do
        # A quoted expansion is compared letter by letter, whatever the directory's name holds.
        case $(readlink "$log") in
            "$directory"/*)
                process=${log#/proc/}
                echo "${process%%/*}"
                ;;
        esac
    done
} 2>/dev/null

left=200
while [ "$left" -gt 0 ] && running=$(processes) && [ -n "$running" ]; do
    kill -s KILL $running 2>/dev/null
    sleep 0.02
    left=$((left - 1))
done

# A Postgres that was killed leaves its System V segment behind; line 7 of its pid file ends with
# its id.
find "$directory" -name postmaster.pid -exec sed -n '7s/.* //p' {} + | while read -r segment; do
    ipcrm -m "$segment" 2>/dev/null
done

rm -rf -- "$directory"
