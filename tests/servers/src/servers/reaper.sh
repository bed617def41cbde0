# Ends a run: kills its processes and removes its directory. Argument: the directory.
#
# Standard input is a pipe. The run's owner holds its write end, and so does each server until it runs. The pipe
# therefore ends after any death of the owner, and no server escapes. Standard output is the run's lock: the run counts
# as alive until everything is removed.

# Signals for the owner (Ctrl-C, a closed terminal) arrive here through the pipe.
trap '' HUP INT QUIT TERM

directory=$1
while read -r _; do :; done

# The run's processes have a log in its directory as their standard error: the servers and their descendants. A shell in
# the directory does not match.
processes() {
    for log in /proc/[0-9]*/fd/2; do
        # Quoted, so that the directory's name is not a pattern.
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

# A killed Postgres leaves its System V segment; line 7 of its pid file ends with the id.
find "$directory" -name postmaster.pid -exec sed -n '7s/.* //p' {} + | while read -r segment; do
    ipcrm -m "$segment" 2>/dev/null
done

rm -rf -- "$directory"
