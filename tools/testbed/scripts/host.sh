# host.sh NAME: one host of a test cluster; process 1 of its PID namespace.
#
# The working directory is the state folder. Relative names still reach it after a mount has
# covered it.
set -eu
name=$1

read -r pid _ </proc/self/stat
echo "$name $pid"
exec >/dev/null

echo "$name" >/proc/sys/kernel/hostname
for scope in all default; do
	file=/proc/sys/net/ipv6/conf/$scope/disable_ipv6
	if [ -e "$file" ]; then echo 1 >"$file"; fi
done

(
	cd "$FIELD_REPO"
	mount --fstab "$FIELD_STATE/fstab" --all
	if [ ! -e "$FIELD_REPO/go.mod" ]; then
		mkdir -p "$FIELD_REPO"
		mount -c --bind . "$FIELD_REPO"
	fi
)
if [ -z "$FIELD_SHARED" ]; then
	mount -t tmpfs -o mode=755 field "$FIELD_REPO/bin"
	cp -R -p ./skel/. "$FIELD_HOME/"
fi
mkdir -p /run/sshd
cp -R -p "./hosts/$name" /run/field
if [ -e /run/field/loadavg ]; then mount --bind /run/field/loadavg /proc/loadavg; fi

# Blocks until Up has created every host's link.
read -r _ <&3 || :
exec 3<&-
ip -batch /run/field/ip
if ! "$FIELD_SSHD" -f /run/field/sshd_config -E /run/field/sshd.log; then
	cat /run/field/sshd.log >&2
	exit 1
fi

# Process 1 reaps the orphans of its host: a shell that waits reaps every child.
cd /
sleep infinity 2>/dev/null &
wait
