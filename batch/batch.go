/*
Package batch knows the batch systems in whose jobs mpiexec can be called (rm-integration.md). Each system is one row, a System, in a
file of its own; Systems lists them. Nothing else in the program names one.

	environment --Inside--> System --Read--> Allocation: the hosts of the job
	                          |              '---> an error: why it must not be used
	                          |
	                          '--> Starter: how package transport starts helpers there, or Attach

The functions of a row are pure: they are handed the environment, a function that opens files, and one that runs the batch system's own
programs. What the rows' host lists have in common is in names.go (host lists, counts) and lines.go (files, hosts that are named again).

To add a system, write a file with its row, like loadleveler.go, or lsf.go if it has a starter. Add the row to Systems and its cases to the
tests of the package; for a starter also a job in testdata/starters, in which test/e2e runs it. Describe the system in doc/guide/batch.md and
doc/spec/rm-integration.md. Tests name what is missing. The words of -rmk and -launcher, help texts and completions are made from the row.
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
	Name     string   // a word of -rmk, and of -launcher if there is a Starter or Attach
	Title    string   // as its manuals write it; in messages
	Products []string // names of products with the same interface; -rmk refuses them and says which word to use. nil: none
	Within   string   // how to get into a job of it, for hints; empty: there is neither Starter nor Attach
	Untried  bool     // its Starter or Attach is written from manuals and was never tried; it is used only if -launcher names it

	// The job that mpiexec is in, and its hosts.

	Variable string                                           // variable that each of its jobs has, for messages
	Inside   func(w Inputs) bool                              // whether mpiexec is in a job of this system
	Job      func(w Inputs) string                            // the ID of the job; empty: it has none
	Hosts    func(w Inputs, wish Options) (Allocation, error) // reads what the job was given
	Copies   func(w Inputs) (times, by string)                // how often it has started mpiexec, as text, and by which program; empty: once. nil: unknown
	Nested   bool                                             // it is meant to run inside of another system's job, which may have other hosts
	Groups   bool                                             // its jobs can have groups of hosts (--het-group)
	AnyHost  bool                                             // ssh may reach hosts that its job does not have, without --allow-outside
	Threads  func(w Inputs) int                               // the OMP_NUM_THREADS that it sets in each job by itself; 0: none. nil: it sets none

	// State and end of the job, as one of the system's programs reports.

	State     func(run Run, job string) State     // RM-40, RM-61; nil: unknown
	End       func(run Run, job string) time.Time // when the job ends; zero: unknown. nil: only Hosts can tell
	KillDelay time.Duration                       // between telling a job to end and killing it, by its manual (RM-62); 0: unknown
	KillWait  func(run Run) time.Duration         // queries KillDelay; 0: no answer. nil: no program reports it

	// How helpers are started on the hosts of the job (RM-30).

	Starter *Starter // its own program for that; nil: hosts are reached by ssh
	Attach  *Attach  // how a shell started by ssh joins the job; nil: it cannot
	Logins  bool     // its job may have SSH servers of its own on the hosts (Host.Login)
	NoInput []string // further words of -launcher, refused: programs that start something on a host and give it no input
	OpenMPI string   // the component (plm) by which Open MPI starts its daemons there; empty: there is none

	// Processes of a job, and their variables.

	Holder   Holder   // which processes account for all their descendants (RM-45); the zero value: unknown
	Sessions bool     // it finds the processes of a job by their session, so ranks stay in it
	Signals  bool     // its signals to what its Starter has started go to the ranks as well, and not to the process group of the task alone
	OfRank   []string // variables by which it tells a process that it is a rank of its own; a trailing * stands for any rest. nil: none
	Identity Identity // variables of a rank that programs look for (--env-compat); the zero value: none
	Memory   string   // its option for more memory, in a hint; empty: unknown
}

// An Identity is the names of the variables that tell a process its rank.
type Identity struct {
	Rank, Size  string // in MPI_COMM_WORLD
	Local, Node string // the rank on its node; the number of the node
	Restarts    string // how often the job was started again
}

// A Holder describes the processes of a batch system whose descendants it accounts for, and kills, as the job's.
type Holder struct {
	Processes []string // names; one may go on with a dash: sge_shepherd-7
	Variables []string // of which each process below has at least one
}

// An Attach is the program by which a process on a host joins the job with its session: PROGRAM JobFlag JOB
// ProcessFlag PID.
type Attach struct {
	Program              string // in the PATH of the host
	JobFlag, ProcessFlag string
	Variable             string // that helper and ranks get, with the number of the job
}

// A Run runs a program of the batch system and returns its output. The error says in one line why it failed.
type Run = func(name string, args ...string) (string, error)

// A State is the state of a job, according to its batch system.
type State int

const (
	Unknown   State = iota // it could not be found out
	Runs                   // it runs
	Suspended              // it is stopped, and may go on
	Over                   // it is being ended, or has ended
)

// Named returns the system with a name, or nil.
func Named(name string) *System {
	return find(func(s *System) bool { return s.Name == name })
}

// Title returns the title of the system with a name, for messages. If there is no such system, it returns the name.
func Title(name string) string {
	if s := Named(name); s != nil {
		return s.Title
	}
	return name
}

// JobName returns a name for a job of the system named system, for messages: "Slurm job 4711". If job is empty, it
// returns the title of the system alone.
func JobName(system, job string) string {
	if job == "" {
		return Title(system)
	}
	return Title(system) + " job " + job
}

// ByProduct returns the system that has a product among its Products, and the product as its makers write it. s is nil
// if there is none. Case does not count.
func ByProduct(word string) (s *System, product string) {
	for _, s := range Systems {
		for _, product := range s.Products {
			if strings.EqualFold(word, product) {
				return s, product
			}
		}
	}
	return nil, ""
}

// GroupOwners returns the titles, in the genitive, of the systems whose jobs can have groups (--het-group), joined by a
// conjunction: "Slurm's".
func GroupOwners(conjunction string) string {
	var owners []string
	for _, s := range Systems {
		if s.Groups {
			owners = append(owners, s.Title+"'s")
		}
	}
	return strings.Join(owners, " "+conjunction+" ")
}

// ByLauncher returns the system that a word of -launcher means, or nil.
func ByLauncher(word string) *System {
	return find(func(s *System) bool { return slices.Contains(s.LauncherWords(), word) })
}

// Inside returns the batch system in whose job mpiexec runs, and the ID of the job. s is nil if there is none.
func Inside(w Inputs) (s *System, job string) {
	if s = find(func(s *System) bool { return s.Inside(w) }); s != nil {
		job = s.Job(w)
	}
	return s, job
}

// BySessions returns the system in whose job mpiexec runs, if it finds the processes of a job by their session; else
// nil.
func BySessions(w Inputs) *System {
	return find(func(s *System) bool { return s.Sessions && s.Inside(w) })
}

// Threads returns the OMP_NUM_THREADS that a batch system has set by itself in the job, or 0.
func Threads(w Inputs) int {
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

// RankVariables lists the variables by which batch systems tell a process its rank. A trailing * matches any rest.
func RankVariables() (patterns []string) {
	for _, s := range Systems {
		patterns = append(patterns, s.OfRank...)
	}
	return patterns
}

// MemoryOptions lists the options by which batch systems are asked for more memory: "Grid Engine: -l h_vmem=1G".
func MemoryOptions() string {
	var options []string
	for _, s := range Systems {
		if s.Memory != "" {
			options = append(options, s.Title+": "+s.Memory)
		}
	}
	return strings.Join(options, "; ")
}

// LauncherWords lists the words of -launcher that mean this system.
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
		words = append(words, s.Name+oneSuffix, s.Name+eachSuffix)
	}
	if s.Starter.DialsBack {
		words = append(words, s.StreamsWord())
	}
	return words
}

// Has reports whether a process with this name holds a job: the name is one of Processes, perhaps followed by a dash
// and more.
func (h Holder) Has(name string) bool {
	return slices.ContainsFunc(h.Processes, func(known string) bool {
		rest, ok := strings.CutPrefix(name, known)
		return ok && (rest == "" || rest[0] == '-')
	})
}

// Holds reports whether a process with this name holds a job of any batch system.
func Holds(process string) bool {
	return find(func(s *System) bool { return s.Holder.Has(process) }) != nil
}

// MayHold reports whether a batch system whose variables are set may hold this process.
func MayHold(w Inputs) bool {
	return find(func(s *System) bool { return slices.ContainsFunc(s.Holder.Variables, w.set) }) != nil
}
