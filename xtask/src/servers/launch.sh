# Becomes a server. It tells the reaper its process number before it is one, so that there is no
# instant at which a server runs that nobody would end. Standard output is the reaper's pipe, which
# the server itself must not hold; standard error is its log.
#
# Arguments: the signal that ends it, the program, the program's arguments.

read -r stat <"/proc/$$/stat"
echo "$1 $$ $stat"
shift
exec "$@" >&2
