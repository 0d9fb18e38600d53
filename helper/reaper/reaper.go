//go:build linux

/*
Package keeper is what of a helper's keeper, and of the guard of a helper inside mpiexec, is no Go: an entry of the program,
before Go's runtime begins, where the helper is forked off and waited for, or the end of mpiexec is. Why there is a
keeper: adr 3; a guard: adr 7; why they wait there: adr 14.

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
	  the keeper, part 2:                 the helper, part 1:     |                   |
	  is "--keeper" for ps                blocks what was         |                   |
	  lets go of descriptors 0, 1         blocked before;         |                   |
	    |                                 SIGTERM when the        |                   |
	    |                                 keeper ends; has        |                   |
	    |                                 it ended? then so       |                   |
	    |                                 do we                   |                   |
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
	                  main: looks at its arguments, and at Part

The entry decides nothing else, and holds no state but its words: what a killed helper has left is ended by
Go, in the same process, so that nothing has to be found and executed for it. One more word says of every process whether
its standard output was closed, which Go's runtime hides by opening /dev/null. When a call fails before there is a
helper, part is 0, and Go does all of it and says what failed; so it is with a guard that cannot wait.

Signals are blocked, so that none ends a keeper that is not one yet, and then ignored, which drops what is pending: Go's runtime
lets some of them in, SIGQUIT for one, before it handles any. What it handles then itself is ignored again by helper.Outlive
and helper.Guard.

The linker has to be told (-E, tools/ldflags.sh). A program that was linked without, or for a kind of CPU that has no entry
here, is in part 0; a keeper in Go starts the helper (helper.Keep), and a guard waits in Go.
*/
package reaper

import (
	"golang.org/x/sys/unix"
)

// What entry says, before there is a runtime; nobody else writes it.
var (
	part   int32 // a Role
	status uint32
	errno  int32
	pipe   [2]int32 // struct pollfd of poll(2): descriptor 0, of which only the end counts
	mask   uint64   // the signals that were blocked before; entry reads it, too
	stdout int32    // flags of descriptor 1, or the error of asking for them as a number below 0
	shared *Counts  // in memory that helper and keeper share; nil: there is none
)

// StdoutClosed reports whether this process was started without a standard output. It is false if the program has no entry of ours.
func StdoutClosed() bool { return stdout == -int32(unix.EBADF) }

// Counts is what a helper leaves to its keeper: how many processes the kernel had killed because memory was short (proc.Denials)
// when it began. A keeper cannot count before Go's runtime.
type Counts struct {
	Group, Machine int64
	valid          int64 // 1 if so
}

// NoteCounts leaves counts to the keeper of this process, if it has one.
func NoteCounts(c Counts) {
	if shared != nil {
		c.valid = 1
		*shared = c
	}
}

// NotedCounts returns what the helper of this keeper has left; false: nothing.
func NotedCounts() (Counts, bool) {
	if shared == nil {
		return Counts{}, false
	}
	return *shared, shared.valid == 1
}

// A Role is what this process is to the entry.
type Role int32

// The roles of a process.
const (
	RoleNone   Role = iota // whatever its arguments say; nothing was forked
	RoleHelper             // a helper, whose parent is its keeper
	RoleReaper             // a keeper whose helper has ended, and perhaps left something
)

// CurrentRole tells the role of this process.
func CurrentRole() Role { return Role(part) }

// HelperStatus tells a Keeper how its helper has ended. The error is that of the call that waited for it.
func HelperStatus() (unix.WaitStatus, error) {
	if errno != 0 {
		return 0, unix.Errno(errno)
	}
	return unix.WaitStatus(status), nil
}
