/*
Package batch knows the batch systems in whose jobs mpiexec can be called (rm-integration.md). Each system is one row, a System, in a
file of its own; Systems lists them. Nothing else in the program names one.

	environment --Inside--> System --Read--> Allocation: the hosts of the job
	                          |              '---> why it must not be used: M1 to M6
	                          |
	                          '--> Starter: how package transport starts helpers there, or Attach

The functions of a row are pure: they are handed the environment, a function that opens files, and one that runs the batch system's own
programs. What the rows' host lists have in common is in names.go (host lists, counts) and lines.go (files, hosts that are named again).

To add a system, write a file like loadleveler.go with its row, add the row to Systems, and add its cases to the tests of the package.
Its words of -rmk and -launcher, help texts and completions are made from the row.
*/
package batch

import (
	"slices"
	"strings"
	"time"
)

// Systems lists the batch systems in the order in which one may run inside of another (RM-1).
var Systems = []*System{&flux, &slurm, &lsf, &gridEngine, &cobalt, &pbs, &loadLeveler, &condor, &alps}

// A System is a batch system: a row of Systems. A column may be empty if its comment says so.
type System struct {
	Name    string // in messages; a word of -rmk, and of -launcher if there is a Starter or Attach
	Title   string // as its manuals write it
	Within  string // how to get into a job of it, for hints; empty: there is neither Starter nor Attach
	Untried bool   // its Starter or Attach is made from manuals, and nobody has seen it work: only who names it with -launcher has it

	// The job that mpiexec is in, and its hosts.

	Variable string                                       // we are not inside without it, for messages
	Inside   func(w World) bool                           // whether mpiexec is in a job of this system
	Job      func(w World) string                         // the number of the job; empty: it has none
	Hosts    func(w World, wish Wish) (Allocation, error) // reads what the job was given
	Copies   func(w World) (times, by string)             // how often it has started mpiexec, in words, if more than once, and by which program; nil: nobody can tell
	Nested   bool                                         // it is meant to run inside of another system's job, which may have other hosts
	Groups   bool                                         // its jobs can have groups of hosts (--het-group)
	AnyHost  bool                                         // ssh may reach hosts that its job does not have, without --allow-outside
	Threads  func(w World) int                            // the OMP_NUM_THREADS that it sets in each job by itself; 0: none. nil: it sets none

	// How the job stands. Run asks one of the system's programs.

	State     func(run Run, job string) State     // RM-40, RM-61; nil: nobody can tell
	End       func(run Run, job string) time.Time // when the job ends; zero: unknown. nil: only Hosts can tell
	KillDelay time.Duration                       // between telling a job to end and killing it, by its manual (RM-62); 0: unknown
	KillWait  func(run Run) time.Duration         // asks for that; 0: no answer. nil: nobody can be asked

	// How helpers are started on the hosts of the job (RM-30).

	Starter *Starter // its own program for that; nil: hosts are reached by ssh
	Attach  *Attach  // how a shell that ssh has started becomes one of the job's; nil: it does not
	Logins  bool     // its job may have SSH servers of its own on the hosts (Host.Login)
	NoInput []string // further words of -launcher, refused: programs that start something on a host and give it no input
	OpenMPI string   // the component (plm) by which Open MPI starts its daemons there; empty: there is none

	// What it does to processes and is told of them.

	Holder   Holder   // which processes hold all below them as the job's (RM-45); the zero value: unknown
	Sessions bool     // it finds the processes of a job by their session, so ranks stay in it
	Signals  bool     // its signals to what its Starter has started go to the ranks as well, and not to the process group of the task alone
	OfRank   []string // variables by which it tells a process that it is a rank of its own; a trailing * stands for any rest. nil: none
	Identity Identity // variables of a rank that programs look for (--env-compat); the zero value: none
	Memory   string   // its option for more memory, in a hint; empty: unknown
}

// An Identity is how a launcher calls the variables by which it tells a process which rank it is.
type Identity struct {
	Rank, Size  string // in MPI_COMM_WORLD
	Local, Node string // the rank on its node; the number of the node
	Restarts    string // how often the job was started again
}

// A Holder is how a batch system holds what runs on a host: all below one of the processes is counted, and ended, as the job's.
type Holder struct {
	Processes []string // names; one may go on with a dash: sge_shepherd-7
	Variables []string // of which each process below has at least one
}

// An Attach is how a process on a host asks for its session to become one of the job's: PROGRAM JobFlag JOB ProcessFlag PID.
type Attach struct {
	Program              string // in the PATH of the host
	JobFlag, ProcessFlag string
	Variable             string // that helper and ranks get, with the number of the job
}

// Run runs a program of the batch system's, and returns what it prints. An error says in one line why it does not.
type Run = func(name string, args ...string) (string, error)

// A State is how a job stands, as its batch system says.
type State int

const (
	Unknown   State = iota // it could not be found out
	Runs                   // it runs
	Suspended              // it is stopped, and may go on
	Over                   // it is being ended, or has ended
)

// Named returns the system of that name; nil: there is none.
func Named(name string) *System {
	return find(func(s *System) bool { return s.Name == name })
}

// ByLauncher returns the system that a word of -launcher means; nil: it means none.
func ByLauncher(word string) *System {
	return find(func(s *System) bool { return slices.Contains(s.LauncherWords(), word) })
}

// Inside returns the batch system in whose job we are, and its number of the job; nil: we are in none.
func Inside(w World) (s *System, job string) {
	if s = find(func(s *System) bool { return s.Inside(w) }); s != nil {
		job = s.Job(w)
	}
	return s, job
}

// BySessions returns the system in whose job we are and which finds the processes of the job by their session; nil: there is none.
func BySessions(w World) *System {
	return find(func(s *System) bool { return s.Sessions && s.Inside(w) })
}

// Threads is the OMP_NUM_THREADS that a batch system in whose job we are has set by itself; 0: none has.
func Threads(w World) int {
	s := find(func(s *System) bool { return s.Threads != nil && s.Inside(w) })
	if s == nil {
		return 0
	}
	return s.Threads(w)
}

func find(is func(*System) bool) *System {
	if i := slices.IndexFunc(Systems, is); i >= 0 {
		return Systems[i]
	}
	return nil
}

// RankVariables lists the variables by which the systems tell processes that they are ranks; a trailing * stands for any rest.
func RankVariables() (patterns []string) {
	for _, s := range Systems {
		patterns = append(patterns, s.OfRank...)
	}
	return patterns
}

// MemoryOptions tells how the systems that we know it of are asked for more memory: "Grid Engine: -l h_vmem=1G".
func MemoryOptions() string {
	var options []string
	for _, s := range Systems {
		if s.Memory != "" {
			options = append(options, s.Title+": "+s.Memory)
		}
	}
	return strings.Join(options, "; ")
}

// LauncherWords lists the words of -launcher that mean this system; nil: there are none.
func (s *System) LauncherWords() []string {
	switch {
	case s.Attach != nil:
		return []string{s.Name}
	case s.Starter == nil:
		return nil
	}
	words := []string{s.Name}
	if s.Starter.Program != s.Name {
		words = append(words, s.Starter.Program)
	}
	if s.Starter.Step != nil {
		words = append(words, s.Name+one, s.Name+each)
	}
	if s.Starter.Back {
		words = append(words, s.StreamsWord())
	}
	return words
}

// Has reports whether a process of this name, or of none, is one of those that hold a job.
func (h Holder) Has(name string) bool {
	return slices.ContainsFunc(h.Processes, func(known string) bool {
		rest, ok := strings.CutPrefix(name, known)
		return ok && (rest == "" || rest[0] == '-')
	})
}

// Holds reports whether a process of this name is one by which any batch system holds a job.
func Holds(process string) bool {
	return find(func(s *System) bool { return s.Holder.Has(process) }) != nil
}

// MayHold reports whether a batch system whose variables are set may hold us by a process.
func MayHold(w World) bool {
	return find(func(s *System) bool { return slices.ContainsFunc(s.Holder.Variables, w.set) }) != nil
}
