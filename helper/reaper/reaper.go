//go:build linux

/*
Package reaper contains the parts of a helper's reaper, and of the guard of a helper inside mpiexec, that are not in Go:
an entry of the program that runs before Go's runtime starts. The entry forks the helper and waits for it, or waits for
the end of mpiexec. The documents in doc/adr say why there is a reaper (3), why there is a guard (7), and why they wait
in the entry (14).

	the kernel
	    |
	  entry: may the process have the address space that Go's runtime reserves? -- no --> a line on stderr, exit 125
	    |
	  is this a helper, "--helper ..."? ---- no ---> "--helper-guard"? -- no --.
	    |                                                         |                   |
	  become a subreaper; ignore SIGHUP, SIGINT, SIGTERM; the   yes                   |
	  usual SIGCHLD; block every signal; get a page that both     |                   |
	  share                                                       |                   |
	    |                                                         |                   |
	  fork -------------------------------.                       |                   |
	    |                                 |                       |                   |
	  the reaper, part 2:                 the helper, part 1:     |                   |
	  is "--reaper" in ps, and its        blocks the signals      |                   |
	  name is "remshell-reaper"           blocked before;         |                   |
	  closes descriptors 0, 1             SIGTERM when the        |                   |
	    |                                 reaper ends; if it      |                   |
	    |                                 has ended already,      |                   |
	    |                                 exits                   |                   |
	    |                                 |                       |                   |
	  ignores every signal but SIGCHLD <--)-----------------------'                   |
	    |                    |            |                                           |
	  waits for the helper   waits for    |                                           |
	    |                    the end of   |                                           |
	  ended with 0, no       the pipe,    |                                           |
	  child is left?         part 0       |                                           |
	    |        |           |            |                                           |
	   yes       no          |            |                                           |
	    |        |           |            |                                           |
	 exit 0      '--> Go's runtime <------'<------------------ part 0 ----------------'
	                  |
	                  main: looks at its arguments, and at CurrentRole

The entry decides nothing else, and its only state is the variables below. The variable part is the Role of this
process. Go code in the same process ends the processes that a killed helper has left, so that no file has to be found
and executed for that. The variable stdout says whether the standard output of this process was closed at the start,
which Go's runtime hides by opening /dev/null. If a system call fails before there is a helper, part is 0, and Go code
does all the work and reports the failure. The same is true for a guard that cannot wait.

Signals are blocked at first, so that no signal ends a process that is about to become a reaper. Then they are
ignored, which drops pending signals, because Go's runtime unblocks some signals, such as SIGQUIT, before it
handles any. helper.RunReaper and helper.RunGuard ignore again those signals that the runtime handles itself.

The reaper has another name than the helper, so that "killall -9 mpiexec" or "pkill -9 mpiexec" on a host does not kill
both at once: then nobody would end the children of the ranks.

The linker needs an option that names the entry (-E, tools/ldflags.sh). In a program that was linked without it, or
for an architecture without an entry, part is 0. Then a reaper in Go starts the helper (helper.RunReaper), and a
guard waits in Go.
*/
package reaper

import (
	"golang.org/x/sys/unix"
)

// Name is the name of a reaper's process in ps and killall, at most 15 bytes long. The assembly code has a copy of it.
const Name = "remshell-reaper"

// These variables are set by the assembly code of entry before Go's runtime starts. Nothing else writes to
// them.
var (
	part   int32 // a Role
	status uint32
	errno  int32
	pipe   [2]int32 // struct pollfd of poll(2): descriptor 0, of which only the end counts
	mask   uint64   // the signals that were blocked at the start; entry reads it, too
	stdout int32    // flags of descriptor 1, or the negative errno of reading them
	shared *Counts  // in memory that helper and reaper share; nil: none
)

// StdoutClosed reports whether this process was started without a standard output. It is false in a program that was
// linked without the entry.
func StdoutClosed() bool { return stdout == -int32(unix.EBADF) }

// Counts says how many processes the kernel had already killed for lack of memory (proc.Denials) early in a job. The
// helper counts them and passes the counts to its reaper, which cannot count before Go's runtime starts.
type Counts struct {
	Group, Machine int64
	valid          int64 // 1 if the counts are set
}

// NoteCounts makes c available to the reaper of this process, if there is one.
func NoteCounts(c Counts) {
	if shared != nil {
		c.valid = 1
		*shared = c
	}
}

// NotedCounts returns the counts that the helper has passed to this reaper. It returns false if the helper
// has not passed any.
func NotedCounts() (Counts, bool) {
	if shared == nil {
		return Counts{}, false
	}
	return *shared, shared.valid == 1
}

// A Role says whether this process is a helper that has a reaper, a reaper, or neither. The assembly code of entry
// decides that before Go's runtime starts.
type Role int32

// These are the roles of a process in the supervision of a helper.
const (
	RoleNone   Role = iota // the entry has forked nothing, whatever the arguments say
	RoleHelper             // a helper whose parent is its reaper
	RoleReaper             // a reaper whose helper has ended, and may have left processes
)

// CurrentRole returns the role of this process.
func CurrentRole() Role { return Role(part) }

// HelperStatus returns how the helper of this reaper (RoleReaper) has ended. The error says why waiting for
// the helper has failed.
func HelperStatus() (unix.WaitStatus, error) {
	if errno != 0 {
		return 0, unix.Errno(errno)
	}
	return unix.WaitStatus(status), nil
}
