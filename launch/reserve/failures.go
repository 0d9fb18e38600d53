package reserve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/text"
	"remshell/usererr"
)

// A HostsError lists hosts that cannot be used or could not start their ranks. Unwrap returns one error for each
// reason. Each of these errors contains a folded list of the hosts, such as n[1-3], and a hint.
type HostsError struct {
	Failed      []job.Failure
	SomeReached bool // some hosts were reached, so the job might start without these
}

func (e *HostsError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns one error for each reason, in the order in which the hosts were named.
func (e *HostsError) Unwrap() []error {
	var reasons []error
	for _, f := range foldFailures(e.Failed) {
		if e.SomeReached {
			f.hint = joinHints(f.hint, "to start without the hosts that cannot be reached: --skip-unreachable")
		}
		reasons = append(reasons, f)
	}
	return reasons
}

// A foldedFailure is a failure of several hosts for the same reason. It contains all these hosts and the details of the
// first one, as in "node[03-42]: connect: connection refused (node03: 10.1.0.3:22)".
type foldedFailure struct {
	reason   string
	hosts    []string
	detail   usererr.Details
	places   []string // where the hosts were named, if in a file
	hint     string
	commands []string // the commands that the hint advises, if they differ by host
	err      error    // error of the first host
}

func (f *foldedFailure) Error() string {
	line := hostlist.Fold(f.hosts) + ": " + f.reason + f.detail.String()
	switch more := len(f.places) - 1; {
	case more == 0:
		line += " (" + f.places[0] + ")"
	case more > 0:
		line += fmt.Sprintf(" (%s and %d more)", f.places[0], more)
	}
	return line
}

func (f *foldedFailure) Unwrap() error { return f.err }

// maxHintCommands is the largest number of commands that one hint to the user lists.
const maxHintCommands = 8

// Hint returns the hint of the first host. If that hint contains a command for the host, the result contains such
// commands for all hosts.
func (f *foldedFailure) Hint() string {
	if len(f.commands) < 2 {
		return f.hint
	}
	all := strings.Join(f.commands[:min(len(f.commands), maxHintCommands)], "; ")
	if more := len(f.commands) - maxHintCommands; more > 0 {
		all += fmt.Sprintf(" (and the same command for %s)", text.Count(more, "more host"))
	}
	return strings.Replace(f.hint, f.commands[0], all, 1)
}

// add adds a host whose failure has the same reason as f.
func (f *foldedFailure) add(failure job.Failure) {
	f.hosts = append(f.hosts, failure.Node)
	f.detail.Add(failure.Node, usererr.Detail(failure.Err))
	if failure.Origin != "" && !strings.HasPrefix(failure.Origin, "-") && !node.IsViolation(failure.Err) {
		f.places = append(f.places, failure.Origin)
	}
	if f.hint == "" {
		f.hint = usererr.Hint(failure.Err)
	}
	var own interface{ Command() string }
	if errors.As(failure.Err, &own) && own.Command() != "" && !slices.Contains(f.commands, own.Command()) {
		f.commands = append(f.commands, own.Command())
	}
}

// foldFailures groups failures by reason, in the order in which the reasons first occur.
func foldFailures(failed []job.Failure) []*foldedFailure {
	var folded []*foldedFailure
	byReason := make(map[string]*foldedFailure)
	for _, failure := range failed {
		reason := usererr.Reason(failure.Err)
		f := byReason[reason]
		if f == nil {
			f = &foldedFailure{reason: reason, err: failure.Err}
			byReason[reason] = f
			folded = append(folded, f)
		}
		f.add(failure)
	}
	return folded
}

// joinHints returns one hint that offers a and b as alternatives.
func joinHints(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; or " + b
}
