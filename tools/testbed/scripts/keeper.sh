# keeper.sh: the keeper of a test cluster of kind Namespaces. Up starts it in the head's network
# namespace.
#
# It starts head.sh as process 1 of a PID namespace: when head.sh ends, the kernel kills all
# processes in this namespace and in those of the hosts. Then this script kills leftover
# commands on the head and removes the state folder. That must be done in a mount namespace
# without the bind mounts of the cluster.
#
# stdin: closed when the process that called Up ends. 3: closed when the hosts have their
# links. 4: the locked file that marks the cluster as up.
cd "$FIELD_STATE" || exit 1
unshare --fork --kill-child --pid --mount --uts sh ./head.sh

net=$(readlink /proc/self/ns/net)
find /proc/[0-9]*/ns/net -maxdepth 0 -printf '%l %p\n' 2>/dev/null |
	while read -r ns file; do
		pid=${file#/proc/}
		pid=${pid%/ns/net}
		# In a pipeline, the other processes of this script are its children.
		if [ "$ns" = "$net" ] && [ "$ns" != "$FIELD_OUTSIDE" ] && [ "$pid" != $$ ] &&
			! grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$pid/status"; then
			kill -9 "$pid"
		fi
	done 2>/dev/null
cd / && rm -rf "$FIELD_STATE"
