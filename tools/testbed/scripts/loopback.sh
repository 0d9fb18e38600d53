# loopback.sh: the keeper of a test cluster of kind Loopback. Up starts it in the state folder,
# as any user.
#
# stdin and 4 are as in keeper.sh. The sessions of an sshd survive when it is killed. Down kills
# them; this script does so only if the process that called Up was killed.
set -eu
cd "$FIELD_STATE"

for name in $FIELD_HOSTS; do
	dir=$FIELD_STATE/hosts/$name # absolute: sshd changes its directory and reads its configuration again
	"$FIELD_SSHD" -D -f "$dir/sshd_config" -E "$dir/sshd.log" 4>&- </dev/null &
done
if [ "$FIELD_KEEP" ]; then wait; else cat >/dev/null; fi

# All processes with this cluster's mark in their environment, and the sshds.
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
