{
# Finds the helper of one build on this node, or reads it from standard input, and
# runs it. Each line of output begins with byte 0x1e (octal 036):
#
#	shell            this shell runs
#	need DIR         send the program: @SIZE@ bytes, no more
#	apart WHY        the session could not join the batch system's job: missing, failed
#	run WHERE        the program is started now; shared, cache, sent or told
#	fail CODE TEXT   it cannot be started
#
# For dash, bash, busybox ash, ksh and mksh. It is one compound command: the shell
# has read all of it before it runs, and finds nothing after it. Lines that begin
# with # are not sent. Variables that exist until exec are named _rs_x: a variable
# that came with the environment would be passed on to the ranks.
#
# When the program is in a cache below $HOME, no other program is started but ls.

# If one step starts the helpers of many hosts, each line begins with the host. If the starter passes no
# output, a failure ends the shell with an exit code, and nothing is printed.
_rs_say() { @SAY@; }

# If address space is limited, the helper would die before it could report why. _rs_v is the output of ulimit with a dot.
_rs_space() {
	[ "$_rs_v" ] || _rs_v=$(ulimit -v 2>/dev/null).
	case ${_rs_v%.} in
	'' | *[!0-9]*) ;;
	*) [ "${_rs_v%.}" -ge @SPACE@ ] || { _rs_say fail space "${_rs_v%.}"; exit 1; } ;;
	esac
}

_rs_run() {
	_rs_space
	_rs_say run "$1"
	exec "$2" --helper @BUILD@ @CALL@
	exit 126
}

# A directory, not a link, that belongs to this user. It is made with mode 700.
_rs_ours() { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; }

# Nobody else can write to any of these, nor replace it: ls -ldn prints the mode of each, one
# to a line. If there is no ls, the helper checks itself once it runs. The first call also asks
# for the limit of address space, so that a cached program is started after one fork.
_rs_alone() {
	command -v ls >/dev/null || return 0
	if [ "$_rs_v" ]; then
		_rs_m=$(ls -ldn "$@" 2>/dev/null) || return 1
	else
		_rs_m=$(ulimit -v 2>/dev/null || echo; exec ls -ldn "$@" 2>/dev/null) || return 1
		_rs_v=${_rs_m%%"
"*}.
		_rs_m=${_rs_m#*"
"}
	fi
	case "
$_rs_m" in
	*"
l"* | *"
"?????w* | *"
"????????w*) return 1 ;;
	esac
}

# A program in such a directory. test -x also checks that the file system allows execution.
_rs_good() { [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -s "$1" ] && [ -x "$1" ]; }

_rs_cached() {
	_rs_ours "$1" && _rs_ours "$1/@BUILD@" && _rs_good "$1/@BUILD@/mpiexec" &&
		_rs_alone "$1" "$1/@BUILD@" "$1/@BUILD@/mpiexec" &&
		_rs_run cache "$1/@BUILD@/mpiexec"
}

# The launcher's own path, if the same program is there and nobody but this user and root
# can change it. It is never run to identify it: it is the launcher's own file by number,
# size and time, or the linker wrote the build ID into its first 4096 bytes, where there are few line
# ends. A shell reads those byte by byte, which takes longer than all the rest.
_rs_shared() {
	[ -f @PATH@ ] && [ -x @PATH@ ] || return 1
	_rs_m=$(TZ=UTC0 ls -ldin --full-time @PARTS@ 2>/dev/null) || _rs_m=$(ls -ldin @PARTS@ 2>/dev/null)
	set -f
	_rs_safe
	_rs_n=$?
	set +f
	[ $_rs_n = 0 ] && { [ "$_rs_x" = @SAME@ ] || _rs_built @PATH@; }
}

_rs_built() {
	_rs_n=0
	while [ $_rs_n -lt @LINE@ ] && IFS= read -r _rs_x; do
		case $_rs_x in *@BUILD@*) return 0 ;; esac
		_rs_n=$((_rs_n + 1))
	done <"$1"
	return 1
}

# The program that the user has named for this node (path= in a host file). Its owner is not
# checked. Nothing else is searched for, and nothing sent.
_rs_told() {
	_rs_m=
	if [ ! -f @TOLD@ ]; then
		_rs_m='there is no such file'
	elif [ ! -x @TOLD@ ]; then
		_rs_m='it cannot be executed'
	elif ! _rs_built @TOLD@; then
		_rs_m='it is not the same build as this mpiexec'
	fi
	[ "$_rs_m" ] || _rs_run told @TOLD@
	_rs_say fail told "$_rs_m"
	exit 1
}

# Checks ls -ldin of a file and of all directories above it: number, mode, links, owner; and of the last one
# also size and time. In a directory with the sticky bit, others cannot replace files that are not theirs. Members
# of a group that may write to a directory of root's are trusted, since root has set that.
_rs_safe() {
	_rs_n=0
	while [ "$_rs_m" ]; do
		_rs_x=${_rs_m%%"
"*}
		_rs_m=${_rs_m#"$_rs_x"}
		_rs_m=${_rs_m#"
"}
		set -- $_rs_x
		_rs_n=$((_rs_n + 1))
		_rs_x="$1 $6 $7 $8 $9"
		case $2 in
		d????????[tT]*) ;;
		l* | ????????w*) return 1 ;;
		?????w*) [ "$4" = 0 ] || return 1 ;;
		esac
		[ "$4" = 0 ] || [ "$4" = "${_rs_uid:=$(id -u)}" ] || return 1
	done
	[ $_rs_n -eq @COUNT@ ]
}

# Stores the program in a cache directory. Exit code: 0 stored, 1 cannot be written,
# 2 not this user's, 3 nothing can be executed there, 4 no space, 5 the input has ended,
# so mpiexec is gone, 6 others can write to it.
#
# It is written under a name that no other delivery uses, on any host, and renamed
# when it is complete. An existing program stays: over NFS, replacing it would kill
# running processes of it. If there is no more space, the rest is still read, so
# that the next directory can be tried.
_rs_take() (
	umask 077
	dir=$1/@BUILD@
	new=$dir/.@TAG@
	mkdir -p "${1%/*}"
	mkdir "$1"
	[ -d "$1" ] || [ -L "$1" ] || exit 1
	_rs_ours "$1" || exit 2
	_rs_alone "$1" || exit 6
	mkdir "$dir"
	_rs_ours "$dir" || exit 1
	_rs_alone "$dir" || exit 6
	trap 'rm -f "$new"' EXIT
	trap 'exit 1' HUP INT TERM PIPE
	find "$dir" -name '.*' -type f -mtime +0 -exec rm -f {} + </dev/null
	printf '#!/bin/sh\n' >"$new" && chmod 700 "$new" || exit 1
	"$new" </dev/null || exit 3
	_rs_say need "$1"
	if [ "$(printf ab | head -c 1)" = a ]; then
		head -c @SIZE@
	else
		dd bs=1 count=@SIZE@
	fi | { cat >"$new" || { cat >/dev/null; false; }; } || exit 4
	[ $(($(wc -c <"$new"))) -eq @SIZE@ ] || exit 5
	if [ @SHIP@ = always ] && [ -e "$dir/mpiexec" ] && ! cmp -s "$new" "$dir/mpiexec"; then
		mv -f "$new" "$dir/mpiexec" || exit 1
	fi
	if [ -e "$dir/mpiexec" ] && ! _rs_alone "$dir/mpiexec"; then
		mv -f "$new" "$dir/mpiexec" || exit 1
	fi
	[ ! -e "$new" ] || ln "$new" "$dir/mpiexec" || _rs_good "$dir/mpiexec" || mv -f "$new" "$dir/mpiexec" || exit 1
)

_rs_find() {
	[ @SHIP@ = always ] || { _rs_shared && _rs_run shared @PATH@; }
	set --
	case ${XDG_CACHE_HOME-} in /*) set -- "$XDG_CACHE_HOME/remshell" ;; esac
	case ${HOME-} in /*) set -- "$@" "$HOME/.cache/remshell" ;; esac
	[ @SHIP@ = always ] || for _rs_x; do _rs_cached "$_rs_x"; done
	_rs_uid=$(id -u)
	for _rs_x in @SYSTEM@; do
		[ @SHIP@ = always ] || _rs_cached "$_rs_x/remshell-$_rs_uid"
		set -- "$@" "$_rs_x/remshell-$_rs_uid"
	done
	if [ @SHIP@ = never ]; then
		_rs_say fail never "$*"
		exit 1
	fi
	_rs_space
	_rs_why=
	for _rs_x; do
		_rs_take "$_rs_x" 2>/dev/null
		case $? in
		0) _rs_run sent "$_rs_x/@BUILD@/mpiexec" ;;
		2) _rs_n='belongs to another user' ;;
		3) _rs_n='no program can be run there (noexec)' ;;
		4) _rs_n='no room' ;;
		5) exit 1 ;;
		6) _rs_n='others can write to it' ;;
		*) _rs_n='cannot be written' ;;
		esac
		_rs_why="$_rs_why${_rs_why:+, }$_rs_x: $_rs_n"
	done
	_rs_say fail store "$_rs_why"
	exit 1
}

# If a batch system knows the processes of a job by their session, this session is attached to the job.
# The command must not read the input after the script.
_rs_join() {
	if ! command -v @ATTACH@ >/dev/null 2>&1; then
		_rs_say apart missing
	elif @ATTACH@ @JOBFLAG@ @JOB@ @PROCESSFLAG@ $$ </dev/null >/dev/null 2>&1; then
		@VARIABLE@=@JOB@
		export @VARIABLE@
	else
		_rs_say apart failed
	fi
}

_rs_say shell
# A start-up file may have removed the directories of ls and others from PATH.
for _rs_x in /usr/bin /bin; do
	case :${PATH-}: in
	*:$_rs_x:*) ;;
	*) PATH=${PATH:+$PATH:}$_rs_x && export PATH ;;
	esac
done
@JOIN@
_rs_uid=
_rs_v=
# A program for another architecture must not be run: dash would take it for a script.
if [ -r /proc/sys/kernel/arch ]; then
	read -r _rs_x </proc/sys/kernel/arch
	_rs_x="Linux $_rs_x"
else
	_rs_x=$(uname -s -m)
fi
case $_rs_x in
@MACHINE@) @FIND@ ;;
# The shell goes on, and can get the same command for another program.
*) _rs_say fail machine "$_rs_x"; @ALONE@ || exit 1 ;;
esac
}
