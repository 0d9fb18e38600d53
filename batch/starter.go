package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shell is the program that each starter starts. It reads the delivery script from its input (RM-31).
const Shell = "/bin/sh"

// A Starter is the program by which a batch system starts Shell on a host of its job (rm-integration.md 3). The batch
// system then accounts for all descendants of Shell, so also for the ranks, and ends them with the job.
type Starter struct {
	Program string // looked for in Folder, then in the PATH; another word of -launcher
	Folder  string // variable by which the batch system tells its job where its own programs are; empty: none

	Argv func(Call) []string // its program with all arguments, which end in Shell
	Step *Step               // how it is called once for many hosts; nil: it cannot be
	Back bool                // helpers dial back to mpiexec if they can, and then need its streams no longer (RM-36)
	Help string              // the argument that prints its options, for Call.Help; empty: its options are not queried

	// Drops lists variables that it would take for options of its own: those of the step or script
	// around us, which mean that one and not ours. A trailing * stands for any rest.
	Drops []string

	Fanout   int           // how many may be under way at once, unless the user says more (RM-35)
	Patience time.Duration // how long it may take, at least, until the helper speaks (RM-35)
	Here     bool          // this machine is reached so as well, if it is not the only one (RM-33)

	Grace time.Duration // that it has to end by itself, once what it has started has seen its input end
	Asked bool          // while it waits in its own queue it ends at SIGTERM, and leaves the queue

	Sayings []Saying                               // meanings of its output before the helper's greeting; the first that matches counts
	Remedy  string                                 // of all others: how to find out whether it works
	Silent  func(help string) (why, remedy string) // why no greeting came in time; nil or empty: unknown
	Line    func(stderr string) string             // the line of its errors that says why it has ended; empty: none (RM-42)
}

// A Step describes one call of a starter that starts Shell on many hosts. Input goes to all of them unchanged. Their
// output comes back merged, in whole lines.
type Step struct {
	Argv func(calls []Call) []string      // of at least one; they are of one Part
	Host string                           // the variable in which a task finds its host, as Call.Host spells it
	Near string                           // that in which it finds an address of the machine where the starter runs
	Line func(stderr, host string) string // why it says that its task on a host has ended; empty: it says nothing
}

// MaxStep is the greatest number of hosts of one step: the list of their names has to fit on a command line.
const MaxStep = 2048

// StepFrom is the number of hosts from which one step is used by default. One step is faster from 2 hosts on
// (doc/performance.md). But a call for each host opens no port, to which hosts may be unable to connect.
const StepFrom = 17

// Manners are the words of -launcher that say how a starter is to be called: SYSTEM-one, for all hosts at once,
// and SYSTEM-each; or that nobody is to call back: SYSTEM-streams.
const (
	one     = "-one"
	each    = "-each"
	streams = "-streams"
)

// Calls reports whether the starter's helpers dial back to mpiexec, given the word of -launcher.
func (s *System) Calls(word string) bool { return s.Starter.Back && word != s.StreamsWord() }

// StreamsWord returns the word of -launcher by which helpers do not dial back.
func (s *System) StreamsWord() string { return s.Name + streams }

// EachWord returns the word of -launcher by which each host has a call of its own.
func (s *System) EachWord() string { return s.Name + each }

// Together reports whether the starter is called once for all hosts, given the word of -launcher. One step starts on
// all of its hosts or on none. So if hosts may be missing, each has a call of its own.
func (s *System) Together(word string, hosts int, someMayMiss bool) bool {
	switch {
	case s.Starter.Step == nil || word == s.EachWord():
		return false
	case word == s.Name+one:
		return true
	}
	return hosts >= StepFrom && !someMayMiss
}

// A Call is one call of a starter.
type Call struct {
	Program string   // its path
	Host    string   // as the batch system spells it
	Part    int      // of the job, that the host is in; -1: it has none
	Rank    int      // of the host's broker, under Flux
	Help    string   // what the program tells of its options
	More    []string // -launcher-args: behind ours, so that they win
}

// words returns the command line of a call.
func (c Call) words(ours ...string) []string {
	return slices.Concat([]string{c.Program}, ours, c.More, []string{Shell})
}

// A Saying is the meaning of a text that a starter prints before it fails.
type Saying struct {
	Text   string // part of them, in lower case
	Busy   bool   // the batch system has too much to do: worth another try
	Why    string // one clause; empty: its own line
	Remedy string
}

// Environ returns the environment of the starter, made from environ.
func (s *Starter) Environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return slices.ContainsFunc(s.Drops, func(drop string) bool {
			prefix, wild := strings.CutSuffix(drop, "*")
			return name == drop || wild && strings.HasPrefix(name, prefix)
		})
	})
}

// Verdict returns why the starter has ended before the helper's greeting. exit is its exit code, or -1 if that is
// unknown.
func (s *Starter) Verdict(stderr string, exit int) Saying {
	line, lower := s.Line(stderr), strings.ToLower(stderr)
	v := Saying{Remedy: s.Remedy}
	if i := slices.IndexFunc(s.Sayings, func(known Saying) bool { return strings.Contains(lower, known.Text) }); i >= 0 {
		v = s.Sayings[i]
	}
	switch {
	case v.Why != "":
	case line != "":
		v.Why = line
	case exit < 0:
		v.Why = "it ended without a word"
	case exit > 128: // as a shell tells it
		v.Why = fmt.Sprintf("it was killed by signal %d", exit-128)
	default:
		v.Why = fmt.Sprintf("it ended with exit code %d and without a word", exit)
	}
	return v
}

// maxShown is the greatest length of a line that is shown, in bytes.
const maxShown = 200

// lastOf returns the last line of a program's errors that is none of its chatter, without its usual prefixes.
func lastOf(stderr string, chatter, prefixes []string) string {
	last := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line != "" && !slices.ContainsFunc(chatter, func(text string) bool { return strings.Contains(line, text) }) {
			last = line
		}
	}
	for _, prefix := range prefixes {
		last = strings.TrimPrefix(last, prefix)
	}
	return shortened(last)
}

func shortened(line string) string {
	if len(line) > maxShown {
		line = line[:maxShown] + "..."
	}
	return line
}
