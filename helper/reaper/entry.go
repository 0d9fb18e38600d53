//go:build linux && (amd64 || arm64)

package reaper

import "golang.org/x/sys/unix"

// entry is where a program begins whose linker was told so. Nobody calls it.
func entry()

/*
What entry does about a limit of address space (ulimit -v), of which Go's runtime reserves much more than it uses. Tried, with a
job on this machine: below 760 MB the runtime ends with a dump of its stacks, and from 1.15 to 1.3 GB as well, since it then reserves
all that it would like to have and nothing is left.

	less than leastSpace      it writes tooLittle to standard error and exits with exitCode, as all our own failures do
	modest to plenty          it lowers the soft limit to modest while the runtime begins; init sets the old one
*/
const (
	leastSpace = 900 << 20 // the same as reach has
	modest     = 1 << 30
	plenty     = 2 << 30
	exitCode   = 125
)

var (
	space     [2]uint64              // struct rlimit: the soft limit, and the hard one
	lowered   = [2]uint64{modest, 0} // what entry sets instead; 0: it did not
	tooLittle = "mpiexec: start: address space is limited to less than the 900 MB that mpiexec needs (ulimit -v); type: ulimit -v unlimited\n" +
		"  If the shell refuses that: open a new shell, ask the batch system for more memory, or have \"as\" raised in /etc/security/limits.conf.\n"
)

func init() {
	if lowered[1] != 0 {
		unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: space[0], Max: space[1]})
	}
}
