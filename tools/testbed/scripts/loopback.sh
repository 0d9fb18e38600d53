# loopback.sh: holds a field of sshds on loopback addresses together; started by Up, in
# the state folder, as any user.
#
# stdin and 4 are as in keeper.sh. An sshd does not take its sessions along when it is
# killed, so Down ends those; here it is only done for a maker that was killed.
set -eu
cd "$FIELD_STATE"

for name in $FIELD_HOSTS; do
	dir=$FIELD_STATE/hosts/$name # sshd leaves the working directory and reads it again
	"$FIELD_SSHD" -D -f "$dir/sshd_config" -E "$dir/sshd.log" 4>&- </dev/null &
done
if [ "$FIELD_KEEP" ]; then wait; else cat >/dev/null; fi

# Whatever carries the mark of this field in its environment, or is one of the sshds.
for name in $FIELD_HOSTS; do
	if [ -e "hosts/$name/sshd.pid" ]; then kill "$(cat "hosts/$name/sshd.pid")" || :; fi
done 2>/dev/null
for env in /proc/[0-9]*/environ; do
	pid=${env#/proc/}
	pid=${pid%/environ}
	if [ "$pid" != $$ ] && grep -qzF "REMSHELL_FIELD=$FIELD_STATE:" "$env"; then
		kill -9 "$pid" || :
	fi
done 2>/dev/null
cd / && rm -rf "$FIELD_STATE"
