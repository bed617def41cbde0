# Execs a server. Arguments: the program and its arguments.
#
# Standard output is the reaper's pipe. The shell holds it until the exec, when the reaper can find the server by its
# standard error. The server writes both outputs to its log.

exec "$@" >&2
