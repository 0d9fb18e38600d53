# keeper.sh: holds a field of namespaces together; started by Up, in the head's network
# namespace.
#
# Everything hangs on head.sh, process 1 of a PID namespace: when it ends, the kernel
# kills whatever runs in it and in the hosts below it. The rest is done here: commands
# that somebody started on the head and left, and the state folder, which must be
# removed from where no bind mount of the field can be seen.
#
# stdin: ends with the process that made the field. 3: ends when the hosts have their
# links. 4: the lock that says the field lives.
cd "$FIELD_STATE" || exit 1
unshare --fork --kill-child --pid --mount --uts sh ./head.sh

net=$(readlink /proc/self/ns/net)
find /proc/[0-9]*/ns/net -maxdepth 0 -printf '%l %p\n' 2>/dev/null |
	while read -r ns file; do
		pid=${file#/proc/}
		pid=${pid%/ns/net}
		# In a shell's pipeline the others of this script are its children.
		if [ "$ns" = "$net" ] && [ "$ns" != "$FIELD_OUTSIDE" ] && [ "$pid" != $$ ] &&
			! grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$pid/status"; then
			kill -9 "$pid"
		fi
	done 2>/dev/null
cd / && rm -rf "$FIELD_STATE"
