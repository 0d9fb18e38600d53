#!/bin/sh
# compat-condor.sh [DIR]: run MPI programs in jobs of HTCondor's, and print what came of it as a table
# (doc/compatibility.md). DIR is build; compat.sh calls it.
#
# A job of the vanilla universe has 2 CPUs of one host, one of the parallel universe 2 of each of two hosts. The jobs are
# those of a user of a field with a pool of its own, who has to be able to read DIR.
# Needs root, and the network for what is not there yet. What mpiexec says when it fails goes to stderr.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "${1:-$here/../build}" && pwd)
mkdir -p "$dir/compat"
mpiexec=$dir/compat/mpiexec # hosts do not see bin
cp "$here/../bin/mpiexec" "$mpiexec"
"$here/condor.sh" "$dir/condor" >&2
pool="$dir/testbed --name compat-condor"
$pool up --condor 2 >/dev/null
trap '$pool down >/dev/null 2>&1' EXIT

# job UNIVERSE SUFFIX: prints a cell for hello and one for spawn.
job() {
	description="universe = $1
executable = job.sh
should_transfer_files = YES
when_to_transfer_output = ON_EXIT
request_cpus = 2
request_memory = 10
error = job.err
log = job.log"
	case $1 in
	vanilla)
		servers= parents=1 output=job.out
		;;
	parallel)
		servers='. "$(condor_config_val LIBEXEC)/sshd.sh" $_CONDOR_PROCNO $_CONDOR_NPROCS >/dev/null
if [ $_CONDOR_PROCNO != 0 ]; then wait; exit; fi'
		parents=2 output='job.out.$(Node)'
		description="$description
machine_count = 2"
		;;
	esac
	$pool on head sh -c 'cd /usr/local/condor/jobs && rm -f job.* && printf "%s\n" "$0" >job.sub && printf "%s\n" "$1" >job.sh && chmod 755 job.sh' "$description
output = $output
queue" "#!/bin/bash
$servers
try() {
	if timeout 120 $mpiexec \"\$@\" >&2; then printf ' yes |'; else printf ' exit %s |' \$?; fi
}
export SPAWN_PROGRAM=$dir/programs/spawn$2
try $dir/programs/hello$2
try -n $parents \$SPAWN_PROGRAM one $parents"
	$pool on head sh -c 'cd /usr/local/condor/jobs && id=$(id -u somebody) && setpriv --reuid="$id" --regid="$id" --clear-groups \
		sh -c "condor_submit job.sub && condor_wait -wait 600 job.log" >&2; cat job.err >&2; cat job.out*' 2>"$dir/compat/condor.log" |
		grep '|' || {
		cat "$dir/compat/condor.log" >&2
		printf ' no result | |'
	}
}

echo '| HTCondor 23.9 (trixie) | vanilla | vanilla, spawn | parallel, two hosts | parallel, spawn on two |'
echo '|---|---|---|---|---|'
for family in 'MPICH 3.4.1:' 'Open MPI 4.1.4:.openmpi'; do
	printf '| %s |' "${family%:*}"
	job vanilla "${family#*:}" | tr -d '\n'
	job parallel "${family#*:}"
done
