package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shell is what every starter is to start: it reads the delivery script from its input (RM-31).
const Shell = "/bin/sh"

// A Starter is the program by which a batch system starts Shell on one host of the job (rm-integration.md 3). What it starts the batch
// system watches, with all that descends from it: so it sees all ranks, counts what they consume, and ends them with the job.
type Starter struct {
	Program string // looked for in Folder, then in the PATH; another word of -launcher
	Folder  string // variable by which the batch system tells its job where its own programs are; empty: none

	Argv func(Call) []string // its program with all arguments, which end in Shell
	Step *Step               // how it is called once for many hosts; nil: it cannot be
	Back bool                // the helpers that it has started call us, if they can, and need its streams no longer (RM-36)
	Help string              // the argument that makes it tell its options, for Call.Help; empty: nobody asks

	// Drops lists variables that it would take for options of its own: those of the step or script
	// around us, which mean that one and not ours. A trailing * stands for any rest.
	Drops []string

	Fanout   int           // how many may be under way at once, unless the user says more (RM-35)
	Patience time.Duration // how long it may take, at least, until the helper speaks (RM-35)
	Here     bool          // this machine is reached so as well, if it is not the only one (RM-33)

	Grace time.Duration // that it has to end by itself, once what it has started has seen its input end
	Asked bool          // while it waits for its turn it ends when asked to (SIGTERM), and gives the turn back

	Sayings []Saying                               // what it says before the helper speaks; the first that fits decides
	Remedy  string                                 // of all others: how to find out whether it works
	Silent  func(help string) (why, remedy string) // why nothing came in time; nil or empty: nobody knows
	Line    func(stderr string) string             // why it has ended, in its own words; empty: there are none (RM-42)
}

// A Step is how a starter is told to start Shell on many hosts by one call. Input goes to all of them, unchanged,
// and what they say comes back in one, whole lines of it.
type Step struct {
	Argv func(calls []Call) []string      // of at least one; they are of one Part
	Host string                           // the variable in which a task finds its host, as Call.Host spells it
	Near string                           // that in which it finds an address of the machine where the starter runs
	Line func(stderr, host string) string // why it says that its task on a host has ended; empty: it says nothing
}

// MaxStep is how many hosts one step has at most: a list of names has to fit on a command line.
const MaxStep = 2048

// StepFrom is the number of hosts from which one step is used where nobody has chosen. It is faster from 2 on (doc/performance.md), but
// a call for each opens no port, to which hosts may not be able to connect.
const StepFrom = 17

// Manners are the words of -launcher that say how a starter is to be called: SYSTEM-one, for all hosts at once,
// and SYSTEM-each; or that nobody is to call back: SYSTEM-streams.
const (
	one     = "-one"
	each    = "-each"
	streams = "-streams"
)

// Calls reports whether the helpers that the starter has started call us, by the word of -launcher that was given.
func (s *System) Calls(word string) bool { return s.Starter.Back && word != s.StreamsWord() }

// StreamsWord is the word of -launcher by which nobody calls back.
func (s *System) StreamsWord() string { return s.Name + streams }

// EachWord is the word of -launcher by which each host has a call of its own.
func (s *System) EachWord() string { return s.Name + each }

// Together reports whether the starter is to be called once for so many hosts, by the word of -launcher that was
// given. A step starts on all of its hosts or on none: where some may be missing each has one of its own.
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

// words puts a call together.
func (c Call) words(ours ...string) []string {
	return slices.Concat([]string{c.Program}, ours, c.More, []string{Shell})
}

// A Saying is what it means that a starter has ended with such words.
type Saying struct {
	Text   string // part of them, in lower case
	Busy   bool   // the batch system has too much to do: worth another try
	Why    string // one clause; empty: its own line
	Remedy string
}

// Environ is what the program gets of an environment.
func (s *Starter) Environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return slices.ContainsFunc(s.Drops, func(drop string) bool {
			prefix, wild := strings.CutSuffix(drop, "*")
			return name == drop || wild && strings.HasPrefix(name, prefix)
		})
	})
}

// Verdict says what it means that the program has ended before the helper spoke; exit is -1 if
// nobody knows its code. There is no SSH in it.
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

// maxShown is how much is shown of a line.
const maxShown = 200

// lastOf is the last line of what a program has said that is none of its chatter, without what
// stands before each of them.
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
