# Becomes a server. Arguments: the program and its arguments.
#
# Standard output is the reaper's pipe, held open until this very line, by when the server can be
# found by its standard error. The server itself gets its log for both.

exec "$@" >&2
