package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shell is the program that a Starter starts on a host. It reads the delivery script from its input (rule
// RM-31).
const Shell = "/bin/sh"

// A Starter describes a program of a batch system, such as srun, that starts Shell on a host of the job
// (rm-integration.md 3). Shell and all its descendants, including the ranks, belong to the batch job: the batch system
// accounts for them, and kills them when the job ends.
type Starter struct {
	Program string                  // looked for in Folders, then in the PATH; another word of -launcher
	Second  string                  // is looked for if there is no Program; empty: none
	Folders func(w Inputs) []string // where the batch system says that its own programs are; nil: it does not

	Argv      func(Call) []string // its program with all arguments, which end in Shell
	Secret    string              // not empty: the starter passes no input (rule RM-38). It is the variable of the job whose value only the job's processes know
	Step      *Step               // how one call serves many hosts; nil: each host needs a call
	DialsBack bool                // helpers dial back to mpiexec if they can, and then no longer need the starter's streams (RM-36)
	Help      string              // the argument that prints its options, for Call.Help; empty: its options are not queried

	// Drops lists variables of the step or script around mpiexec. The starter would read them as its
	// own options. A trailing * matches any rest.
	Drops []string

	Fanout       int           // how many calls may run at once, unless the user allows more (RM-35)
	StartTimeout time.Duration // the least time that a call has until the helper's greeting (RM-35)
	AlsoLocal    bool          // the starter also starts the helper on this machine, if the job has other hosts (RM-33)

	EndGrace      time.Duration // time to end by itself after the input of its Shell has ended
	EndsAtSIGTERM bool          // SIGTERM ends it while it waits in its own queue, and takes it out of the queue

	ErrorPatterns  []ErrorPattern                            // patterns of its output before the helper's greeting; the first that matches counts
	DefaultRemedy  string                                    // for output that no pattern matches: how to find out whether the starter works
	ExplainSilence func(help string) (reason, remedy string) // reason no greeting came in time; nil, or empty results: unknown
	ErrorLine      func(stderr string) string                // the line of its standard error that says why it ended; empty: none (RM-42)
}

// A Step describes one call of a starter that starts Shell on many hosts. The input of the call is copied to all
// hosts. The outputs of the hosts are merged line by line.
type Step struct {
	Argv        func(calls []Call) []string      // for at least one call; all have the same Part
	HostVar     string                           // variable that holds a task's host, spelled as in Call.Host
	LauncherVar string                           // variable that holds an address of the machine where the starter runs
	ErrorLine   func(stderr, host string) string // the line of standard error that says why the task on a host ended; empty: none
}

// MaxStep is the maximum number of hosts in one Step. Their names must fit on a command line.
const MaxStep = 2048

// StepFrom is the minimum number of hosts for which mpiexec starts a single step by default. A single step is faster
// for any number of hosts above 1. But it needs an open port on this machine, and the hosts may be unable to connect
// to that port. One call for each host needs no port.
const StepFrom = 17

// These are suffixes of a batch system's name in values of -launcher. With SYSTEM-one, mpiexec starts the helpers
// of all hosts with one call of the starter. With SYSTEM-each, it makes a call for each host. With SYSTEM-streams,
// helpers use the streams of the call and do not connect to mpiexec themselves.
const (
	oneSuffix     = "-one"
	eachSuffix    = "-each"
	streamsSuffix = "-streams"
)

// HelpersDialBack reports whether helpers that this system starts connect to mpiexec themselves, instead of using
// the streams of the starter. word is the value of -launcher.
func (s *System) HelpersDialBack(word string) bool {
	return s.Starter.DialsBack && word != s.StreamsWord()
}

// StreamsWord returns the value of -launcher with which helpers use the streams of the starter and do not connect
// to mpiexec themselves.
func (s *System) StreamsWord() string { return s.Name + streamsSuffix }

// EachWord returns the value of -launcher with which mpiexec makes one call of the starter for each host.
func (s *System) EachWord() string { return s.Name + eachSuffix }

// Together reports whether mpiexec makes one call of the starter for all hosts. word is the value of -launcher, which
// may decide this. Otherwise mpiexec makes one call for at least StepFrom hosts, but not if some cannot be reached,
// because such a call starts Shell on all hosts or on none.
func (s *System) Together(word string, hosts int, someUnreachable bool) bool {
	switch {
	case s.Starter.Step == nil || word == s.EachWord():
		return false
	case word == s.Name+oneSuffix:
		return true
	}
	return hosts >= StepFrom && !someUnreachable
}

// A Call contains the parameters of one call of a starter.
type Call struct {
	Program   string   // its path
	Host      string   // as the batch system spells it
	Part      int      // the part of a heterogeneous job that the host belongs to; -1: none
	Rank      int      // of the host's broker, under Flux
	Help      string   // output of the program for Starter.Help
	ExtraArgs []string // -launcher-args; they follow the arguments of System, so that they win
}

// commandLine returns the command line of a call. It consists of the program, the given arguments, the user's
// arguments, and Shell.
func (c Call) commandLine(arguments ...string) []string {
	return slices.Concat([]string{c.Program}, arguments, c.ExtraArgs, []string{Shell})
}

// An ErrorPattern is a string that a starter prints before it fails, with the meaning of that string.
type ErrorPattern struct {
	Pattern string // part of the output, in lower case
	Busy    bool   // the batch system is busy: another try may succeed
	Why     string // one clause; empty: the starter's own line
	Remedy  string
}

// Environ returns environ without the variables that s.Drops lists.
func (s *Starter) Environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return slices.ContainsFunc(s.Drops, func(drop string) bool {
			prefix, wild := strings.CutSuffix(drop, "*")
			return name == drop || wild && strings.HasPrefix(name, prefix)
		})
	})
}

// Diagnose returns why the starter ended before the helper sent its first message. exit is the starter's exit code,
// or -1 if the code is unknown.
func (s *Starter) Diagnose(stderr string, exit int) ErrorPattern {
	line, lower := s.ErrorLine(stderr), strings.ToLower(stderr)
	v := ErrorPattern{Remedy: s.DefaultRemedy}
	if i := slices.IndexFunc(s.ErrorPatterns, func(known ErrorPattern) bool { return strings.Contains(lower, known.Pattern) }); i >= 0 {
		v = s.ErrorPatterns[i]
	}
	switch {
	case v.Why != "":
	case line != "":
		v.Why = line
	case exit < 0:
		v.Why = "the launcher ended without a message"
	case exit > 128: // as a shell tells it
		v.Why = fmt.Sprintf("the launcher was killed by signal %d", exit-128)
	default:
		v.Why = fmt.Sprintf("the launcher ended with exit code %d and printed no message", exit)
	}
	return v
}

// maxShown is the maximum length in bytes of a line that is quoted in a message.
const maxShown = 200

// lastOf returns the last line of a program's standard error that contains none of the strings in ignored. It removes
// the prefixes from the start of that line.
func lastOf(stderr string, ignored, prefixes []string) string {
	last := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line != "" && !slices.ContainsFunc(ignored, func(text string) bool { return strings.Contains(line, text) }) {
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
