#!/bin/sh
# install.sh: put on this Debian machine what the tests run against.
#
#	testdata/install.sh            as root; says nothing when all is there
#	testdata/install.sh --check    exit 0 if all is there, else name what is missing
#
# These are the programs the tests compare us with (OpenSSH, MPICH's Hydra, Open
# MPI), Slurm's PMI-2 library, the shells a user may have as login shell, what a
# testbed is made of, compilers whose programs the unwinder reads, Slurm with munge,
# Grid Engine, and rpm, which installs our package in a root of its own.
# No service is started or left enabled: every sshd of the tests is started by the
# tests, in a namespace or on a loopback address of their own.
set -eu

wanted="openssh-server openssh-client mpich libmpich-dev openmpi-bin libopenmpi-dev
	iproute2 procps strace gcc libc6-dev util-linux tcsh csh fish zsh man-db groff nftables hwloc libpmi2-0-dev rpm
	libpmix-dev python3-mpi4py python3-torch numactl slurm-wlm munge
	gridengine-master gridengine-exec gridengine-client esmtp-run
	gfortran musl-tools"

missing() {
	for p in $wanted; do
		case $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) in
		installed) ;;
		*) echo "$p" ;;
		esac
	done
}

todo=$(missing | tr '\n' ' ')
if [ -z "$todo" ]; then
	exit 0
fi
if [ "${1-}" = --check ]; then
	echo "install.sh: missing: $todo" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	# The tests then use what there is: sshds of this user, or servers of our own.
	echo "install.sh: missing: ${todo}; as root on Debian, $0 installs them" >&2
	exit 0
fi

# Maintainer scripts ask policy-rc.d whether they may start their service; 101 is
# "no" (invoke-rc.d(8)). The machine's own answer is put back in every case.
policy=/usr/sbin/policy-rc.d
kept=$policy.remshell
log=$(mktemp)
restore() {
	rm -f "$policy" "$log"
	if [ -e "$kept" ]; then mv "$kept" "$policy"; fi
}
if [ -e "$policy" ] && [ ! -e "$kept" ]; then mv "$policy" "$kept"; fi
trap restore EXIT
trap 'exit 130' INT TERM HUP
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

# What those of todo that are daemons have for systemd. A freshly installed one would start at
# the next boot: nobody asked for that.
units=
for p in $todo; do
	case $p in
	openssh-server) units="$units ssh.service ssh.socket" ;;
	munge) units="$units munge.service" ;;
	slurm-wlm) units="$units slurmctld.service slurmd.service" ;;
	gridengine-master | gridengine-exec) units="$units $p.service" ;;
	esac
done

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
		-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$log" 2>&1
}
echo "install.sh: installing $todo" >&2
# Old package lists name files the mirror no longer has, so one failure is answered
# with an update.
# shellcheck disable=SC2086
if ! apt install $todo; then
	apt update || { cat "$log" >&2; exit 1; }
	apt install $todo || { cat "$log" >&2; exit 1; }
fi

if [ -n "$units" ] && command -v systemctl >/dev/null; then
	# shellcheck disable=SC2086
	systemctl -q disable $units >/dev/null 2>&1 || true
fi
