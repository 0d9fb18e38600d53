# condor.sh: starts HTCondor's daemons on the head or a host of a test cluster, as the pool's user.
#
# A host's files are in its own /var/tmp, except logs and the spool folder, which the head and all hosts see.
set -eu
user=somebody
top=/usr/local/condor
pool=$top/pool/$(hostname)
mkdir -p "$pool/log" "$pool/spool" "$top/jobs" "$top/home" /var/tmp/condor/execute /var/tmp/condor/lock /var/tmp/condor/run
chown -R $user "$pool" "$top/jobs" "$top/home" /var/tmp/condor
cd /
if [ "$(hostname)" = head ]; then
	export _CONDOR_DAEMON_LIST='MASTER, COLLECTOR, NEGOTIATOR, SCHEDD'
fi
id=$(id -u $user)
exec setpriv --reuid="$id" --regid="$id" --clear-groups env HOME=$top/home USER=$user LOGNAME=$user condor_master
