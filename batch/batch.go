/*
Package batch describes the batch systems in whose jobs mpiexec can run (rm-integration.md). Each batch system is
one row, a System, in a file of its own. Systems lists all rows. No other package names a batch system.

	environment --Inside--> System --Read--> Allocation: the hosts of the job
	                          |              '---> or an error if mpiexec must not use them
	                          |
	                          '--> Starter: starts helpers there for package transport,
	                               or Attach: adds helpers started by ssh to the job

The functions of a row do no I/O themselves: they get the environment, a function that opens files, and a function
that runs programs of the batch system. Code that several rows use is in names.go (host lists, counts)
and lines.go (files, repeated hosts).

To add a system, write a file with its row, like loadleveler.go, or like lsf.go if it has a starter. Add the row to
Systems and its cases to the tests of the package. For a starter also add a job in testdata/starters, which test/e2e
runs. Describe the system in doc/guide/batch.md and doc/spec/rm-integration.md. The tests report what is missing. The
values of -rmk and -launcher, help texts and completions are generated from the row.
*/
package batch

import (
	"slices"
	"strings"
	"time"
)

// Systems lists all batch systems. If mpiexec runs in jobs of several systems, it uses the first of them (rule RM-1).
// So Flux comes before Slurm, in whose jobs it may run, and ALPS, which lists no hosts, comes last.
var Systems = []*System{&flux, &slurm, &lsf, &gridEngine, &cobalt, &pbs, &loadLeveler, &condor, &alps}

// A System describes one batch system and is one row of Systems. A field may be empty only if its comment says so.
type System struct {
	Name     string   // a word of -rmk, and of -launcher if there is a Starter or Attach
	Title    string   // as its manuals write it; in messages
	Products []string // names of products with the same interface; -rmk refuses them and says which word to use. nil: none
	Within   string   // how to get into a job of it, for hints; empty: there is neither Starter nor Attach
	Untried  bool     // its Starter or Attach is written from manuals and was never tried; it is used only if -launcher names it

	// The job that mpiexec is in, and its hosts.

	Variable string                                              // variable that each of its jobs has, for messages
	Inside   func(w Inputs) bool                                 // whether mpiexec is in a job of this system
	Job      func(w Inputs) string                               // the ID of the job; empty: it has none
	Hosts    func(w Inputs, options Options) (Allocation, error) // reads what the job was given
	Copies   func(w Inputs) (starter string)                     // the program that has started several copies of mpiexec; empty: one copy runs. nil: unknown
	Nested   bool                                                // it is meant to run inside of another system's job, which may have other hosts
	Groups   bool                                                // its jobs can have groups of hosts (--het-group)
	AnyHost  bool                                                // ssh may reach hosts that its job does not have, without --allow-outside
	Threads  func(w Inputs) int                                  // the OMP_NUM_THREADS that it sets in each job by itself; 0: none. nil: it sets none

	// State and end of the job, as one of the system's programs reports.

	State     func(run Run, job string) State     // RM-40, RM-61; nil: unknown
	End       func(run Run, job string) time.Time // when the job ends; zero: unknown. nil: only Hosts can tell
	KillDelay time.Duration                       // between telling a job to end and killing it, by its manual (RM-62); 0: unknown
	KillWait  func(run Run) time.Duration         // queries KillDelay; 0: no answer. nil: no program reports it

	// How helpers are started on the hosts of the job (rule RM-30).

	Starter *Starter // its own program for that; nil: hosts are reached by ssh
	Attach  *Attach  // how a shell started by ssh joins the job, if -launcher names its program; nil: it cannot
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

// An Identity lists the environment variables by which a batch system tells a process its rank.
type Identity struct {
	Rank, Size  string // in MPI_COMM_WORLD
	Local, Node string // the rank on its node; the number of the node
	Restarts    string // how often the job was started again
}

// A Holder describes the processes of a batch system, such as slurmstepd, below which all processes of a job run. The
// batch system accounts for all descendants of these processes as part of the job, and kills them with the job.
type Holder struct {
	Processes []string // names; one may go on with a dash: sge_shepherd-7
	Variables []string // of which each process below has at least one
}

// An Attach describes a program that makes a process, and the others in its kernel session, part of a batch job.
// mpiexec runs it as PROGRAM JOBFLAG JOB PROCESSFLAG PID.
type Attach struct {
	Program              string // in the PATH of the host
	JobFlag, ProcessFlag string
	Variable             string // that helper and ranks get, with the number of the job
}

// A Run runs a program of the batch system and returns the program's output. The error says on one line why the program
// failed.
type Run = func(name string, args ...string) (string, error)

// A State is the state of a job as its batch system reports it.
type State int

const (
	Unknown   State = iota // it could not be found out
	Runs                   // it runs
	Suspended              // it is stopped, and may go on
	Over                   // it is being ended, or has ended
)

// Named returns the batch system with this name, or nil.
func Named(name string) *System {
	return find(func(s *System) bool { return s.Name == name })
}

// Title returns the name by which messages call a batch system, such as "Grid Engine". name is a value of -rmk. If no
// batch system has this name, Title returns name unchanged.
func Title(name string) string {
	if s := Named(name); s != nil {
		return s.Title
	}
	return name
}

// JobName returns a batch job's name for messages: "Slurm job 4711". If job is empty, it returns only the
// title of the system.
func JobName(system, job string) string {
	if job == "" {
		return Title(system)
	}
	return Title(system) + " job " + job
}

// ByProduct returns the batch system whose Products contain word, ignoring case. product is the product's name as its
// makers spell it. If no system has this product, s is nil.
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

// GroupOwners returns a part of a message: the systems whose jobs can have groups (--het-group), each with 's. If there
// are several, conjunction stands between them.
func GroupOwners(conjunction string) string {
	var owners []string
	for _, s := range Systems {
		if s.Groups {
			owners = append(owners, s.Title+"'s")
		}
	}
	return strings.Join(owners, " "+conjunction+" ")
}

// ByLauncher returns the batch system that a value of -launcher selects, or nil if the value selects none.
func ByLauncher(word string) *System {
	return find(func(s *System) bool { return slices.Contains(s.LauncherWords(), word) })
}

// Inside returns the batch system in whose job mpiexec runs, and the ID of the job. If mpiexec runs in no batch
// job, s is nil.
func Inside(w Inputs) (s *System, job string) {
	if s = find(func(s *System) bool { return s.Inside(w) }); s != nil {
		job = s.Job(w)
	}
	return s, job
}

// BySessions returns the batch system in whose job mpiexec runs if that system finds the job's processes by their
// kernel session (setsid). Otherwise it returns nil.
func BySessions(w Inputs) *System {
	return find(func(s *System) bool { return s.Sessions && s.Inside(w) })
}

// Threads returns the value of OMP_NUM_THREADS if a batch system has set this variable for the job, and 0
// otherwise.
func Threads(w Inputs) int {
	s := find(func(s *System) bool { return s.Threads != nil && s.Inside(w) })
	if s == nil {
		return 0
	}
	return s.Threads(w)
}

func find(match func(*System) bool) *System {
	if i := slices.IndexFunc(Systems, match); i >= 0 {
		return Systems[i]
	}
	return nil
}

// RankVariables returns patterns for the names of the environment variables by which batch systems tell a process its
// rank. A trailing * in a pattern matches any text.
func RankVariables() (patterns []string) {
	for _, s := range Systems {
		patterns = append(patterns, s.OfRank...)
	}
	return patterns
}

// MemoryOptions returns a string that lists, for each batch system, the option that requests more memory: "Grid Engine:
// -l h_vmem=1G".
func MemoryOptions() string {
	var options []string
	for _, s := range Systems {
		if s.Memory != "" {
			options = append(options, s.Title+": "+s.Memory)
		}
	}
	return strings.Join(options, "; ")
}

// LauncherWords returns the values of -launcher that select this system.
func (s *System) LauncherWords() []string {
	if s.Starter == nil {
		return nil
	}
	words := []string{s.Name}
	if s.Starter.Program != s.Name {
		words = append(words, s.Starter.Program)
	}
	if s.Starter.Step != nil {
		words = append(words, s.Name+oneSuffix, s.Name+eachSuffix)
	}
	if s.Attach != nil {
		words = append(words, s.Attach.Program)
	}
	if s.Starter.DialsBack && s.Starter.Secret == "" {
		words = append(words, s.StreamsWord())
	}
	return words
}

// Has reports whether name is one of h.Processes, or one of them followed by a dash and more text.
func (h Holder) Has(name string) bool {
	return slices.ContainsFunc(h.Processes, func(known string) bool {
		rest, ok := strings.CutPrefix(name, known)
		return ok && (rest == "" || rest[0] == '-')
	})
}

// Holds reports whether the Holder of any batch system has a process of this name. All processes of a batch job are
// descendants of such a process.
func Holds(process string) bool {
	return find(func(s *System) bool { return s.Holder.Has(process) }) != nil
}

// MayHold reports whether the environment variables say that mpiexec runs in a job of a batch system that has a
// Holder. It does not look at processes.
func MayHold(w Inputs) bool {
	return find(func(s *System) bool { return slices.ContainsFunc(s.Holder.Variables, w.set) }) != nil
}
