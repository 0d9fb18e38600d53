//go:build linux && (amd64 || arm64)

package reaper

import "golang.org/x/sys/unix"

// entry is the entry point of the program, which the linker is told to use (-E). It is written in assembly,
// and Go code does not call it.
func entry()

/*
entry handles a limit on address space (ulimit -v), of which Go's runtime reserves much more than it uses. In a test
with a job on one machine, the runtime crashed with a dump of its stacks at limits below 760 MB. It also did so at
limits from 1.15 to 1.3 GB, because it reserved as much as it prefers and no address space was left.

	below leastSpace          entry writes tooLittle to standard error and exits with exitCode
	from modest to plenty     entry lowers the soft limit to modest while the runtime starts; init restores it
*/
const (
	leastSpace = 900 << 20 // the same as in package transport
	modest     = 1 << 30
	plenty     = 2 << 30
	exitCode   = 125
)

var (
	space     [2]uint64              // struct rlimit: the soft and the hard limit
	lowered   = [2]uint64{modest, 0} // the limit that entry sets instead; 0: it set none
	tooLittle = "mpiexec: start: the address space is limited (ulimit -v), but mpiexec needs 900 MB; type: ulimit -v unlimited\n" +
		"  If the shell refuses this command, open a new shell, ask the batch system for more memory, or ask an administrator to raise \"as\" in /etc/security/limits.conf.\n"
)

func init() {
	if lowered[1] != 0 {
		unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: space[0], Max: space[1]})
	}
}
