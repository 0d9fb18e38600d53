# head.sh: the head of a test cluster: sets up the bridge, /etc and a home, and starts the hosts.
#
# It prints "NAME PID" for itself; each host does the same. /proc is still the machine's, so
# these are the pids in the PID namespace of the process that called Up.
set -eu

echo head >/proc/sys/kernel/hostname
for scope in all default; do
	file=/proc/sys/net/ipv6/conf/$scope/disable_ipv6
	if [ -e "$file" ]; then echo 1 >"$file"; fi
done

# The hosts inherit these files with the mount namespace.
for file in hosts passwd shadow nsswitch.conf; do
	mount --bind "etc/$file" "/etc/$file"
done

# The repository stays reachable by the working directory while a mount covers it.
(
	cd "$FIELD_REPO"
	mount --bind "$FIELD_STATE/home" "$FIELD_HOME"
	if [ -d "$FIELD_STATE/slurm" ]; then mount --bind "$FIELD_STATE/slurm" /etc/slurm; fi
	if [ -d "$FIELD_STATE/sge" ]; then mount --bind "$FIELD_STATE/sge" /var/lib/gridengine; fi
	if [ -d "$FIELD_STATE/condor" ]; then
		find "$FIELD_STATE/condor" -type d -exec chmod 755 {} +
		mount -t overlay -o "lowerdir=$FIELD_STATE/condor/usr:build/condor/usr:/usr" condor /usr
		mount --bind "$FIELD_STATE/condor" /usr/local/condor
	fi
	mount -t tmpfs -o mode=1777 field-head /var/tmp # not "field", or mount(8) in the hosts would skip theirs as mounted already
	if [ ! -e "$FIELD_REPO/go.mod" ]; then
		mkdir -p "$FIELD_REPO"
		mount -c --bind . "$FIELD_REPO"
	fi
)
ip -batch head.ip

read -r pid _ </proc/self/stat
echo "head $pid"
for name in $FIELD_HOSTS; do
	unshare --net --uts --pid --ipc --mount --fork --kill-child \
		sh ./host.sh "$name" 4>&- </dev/null &
done
exec 3<&- >/dev/null

# An ignored SIGCHLD stays ignored after the exec: the kernel then reaps the children.
trap '' CHLD
cd /
if [ "$FIELD_KEEP" ]; then exec sleep infinity; fi
exec cat
