/*
Package restart decides whether a job whose attempt has ended is started again, when, and with
which request (survive.md 3). All of it is pure.

	attempts so far --Next--> over, or again after a pause
	   |
	   '--- and the first request --Request--> that of the next attempt

The loop that lives by it is launch.Run.
*/
package restart

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/batch"
	"remshell/job"
)

// Times of SV-6.
const (
	Delay   = 5 * time.Second  // the first pause, unless another is asked for
	longest = 5 * time.Minute  // pause
	calm    = 10 * time.Minute // an attempt that ran so long lets the pauses begin anew
	brief   = 10 * time.Second // an attempt that ran shorter shows that it is no use
	briefly = 5                // so many of these in a row end a job that would be started for ever
)

// Keep is how long nodes and claims are kept for the next attempt (SV-2).
const Keep = 10 * time.Minute

// Patience is how long a job looks for room before it gives up (SV-5).
const Patience = 10 * time.Minute

// A Decision is what becomes of a job whose last attempt is over.
type Decision struct {
	Again bool
	Pause time.Duration // before
	Why   string        // it is over although its end is a reason to start again; empty: it is none
}

// Next decides after the last of a job's attempts, of which there is one of this mpiexec at least. luck is from 0
// to 1, and lengthens the pause by up to a fifth: jobs that fell together do not rise together.
func Next(p job.Restart, attempts []job.Attempt, luck float64) Decision {
	attempts = attempts[p.Past:]
	last := attempts[len(attempts)-1]
	if !last.Kind.Failure() {
		return Decision{Again: true}
	}
	attempts = unmoved(attempts)
	switch {
	case p.Most == 0 || !p.Counts(last.Kind, last.Exit):
		return Decision{}
	case len(attempts) > p.Most:
		return Decision{Why: fmt.Sprintf("no restarts left (%d)", p.Most)}
	case p.Most == job.Always && useless(attempts):
		return Decision{Why: fmt.Sprintf("five attempts in a row ran less than %v", brief)}
	}
	return Decision{Again: true, Pause: pause(p.Delay, attempts, luck)}
}

// useless reports whether the last attempts were all over at once.
func useless(attempts []job.Attempt) bool {
	if len(attempts) < briefly {
		return false
	}
	return !slices.ContainsFunc(attempts[len(attempts)-briefly:], func(a job.Attempt) bool { return a.Ran() >= brief })
}

// pause doubles from one attempt to the next, until one runs for long.
func pause(first time.Duration, attempts []job.Attempt, luck float64) time.Duration {
	first = cmp.Or(first, Delay)
	p := first
	for _, a := range attempts[1:] {
		if p = min(2*p, longest); a.Ran() >= calm {
			p = first
		}
	}
	if attempts[len(attempts)-1].Ran() >= calm {
		p = first
	}
	return p + time.Duration(luck*float64(p)/5)
}

// unmoved are the attempts that were not ended to be moved: that is no failure, and counts for nothing.
func unmoved(attempts []job.Attempt) []job.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a job.Attempt) bool { return !a.Kind.Failure() })
}

// Used is how many restarts attempts have taken that are over, the one behind the last of them included.
func Used(p job.Restart, attempts []job.Attempt) int {
	return len(unmoved(attempts[min(p.Past, len(attempts)):]))
}

// Left writes how many restarts there may be after these attempts and the one that follows: a number, or "unlimited".
func Left(p job.Restart, attempts []job.Attempt) string {
	if p.Most == job.Always {
		return "unlimited"
	}
	return strconv.Itoa(p.Most - Used(p, attempts))
}

// Of writes which restart of how many follows these attempts: "1 of 3", "1".
func Of(p job.Restart, attempts []job.Attempt) string {
	if p.Most == job.Always {
		return strconv.Itoa(Used(p, attempts))
	}
	return fmt.Sprintf("%d of %d", Used(p, attempts), p.Most)
}

// Request is what is asked for the attempt that follows those that there were; with none, the
// first. Nodes that are not there are no fault any more.
func Request(first job.Request, attempts []job.Attempt) job.Request {
	req := first
	if !first.Restart.Several() {
		return req
	}
	req.Given = append(slices.Clone(first.Given), environment(first, attempts)...)
	if len(attempts) == 0 {
		return req
	}
	req.Skip = true
	req.Nodes = candidates(first, attempts)
	req.Apps = sections(first)
	req.Streams.Out.Append, req.Streams.Err.Append = true, true
	req.Attempt = len(attempts)
	return req
}

// Tiers of candidates (SV-4): those that had ranks and live come first, in their order; then spares; then
// those that had nothing, by the sort key; last those that were lost, and are back. A job that is moved goes where
// it was planned to go, and nowhere else.
func candidates(first job.Request, attempts []job.Attempt) []job.NodeDef {
	last := attempts[len(attempts)-1]
	troubles := make(map[string]int)
	for _, a := range attempts[min(first.Restart.Past, len(attempts)-1):] {
		for _, name := range slices.Concat(a.Lost, a.Failed) {
			troubles[name]++
		}
	}
	tiers := make(map[string]int, len(last.Nodes)+len(last.Spares))
	for i, name := range slices.Concat(last.Nodes, last.Spares) {
		tiers[name] = i
	}
	leaves := departed(attempts)
	nodes := slices.Clone(first.Nodes)
	for i := range nodes {
		n := &nodes[i]
		tier, had := tiers[n.Name]
		switch {
		case leaves[n.Name]:
			n.Out = "the job was moved away from it"
		case last.Goes != nil:
			if n.Tier = slices.Index(last.Goes, n.Name); n.Tier < 0 {
				n.Tier, n.Out = 0, "the job is moved to others"
			}
		case troubles[n.Name] > 1:
			n.Out = "it was lost twice"
		case troubles[n.Name] == 1:
			n.Tier = len(last.Nodes) + len(last.Spares) + 1
		case had:
			n.Tier = tier
		default:
			n.Tier = len(last.Nodes) + len(last.Spares)
		}
	}
	return nodes
}

// sections get the arguments of attempts that are not the first; the last may have fewer ranks
// (SV-5).
func sections(first job.Request) []job.App {
	apps := slices.Clone(first.Apps)
	for i := range apps {
		apps[i].Argv = slices.Concat(apps[i].Argv, first.Restart.Args)
	}
	last := &apps[len(apps)-1]
	if least := first.Restart.Least; least > 0 && last.N > least && last.Soft == nil {
		for n := last.N; n >= least; n-- {
			last.Soft = append(last.Soft, n)
		}
		last.N = 0
	}
	return apps
}

// restartCount is the variable in which a launcher tells ranks how often the job was started again; empty: there is none.
func restartCount(launcher string) string {
	if launcher == "torch" {
		return "TORCHELASTIC_RESTART_COUNT"
	}
	if s := batch.Named(launcher); s != nil {
		return s.Identity.Restarts
	}
	return ""
}

// environment is what ranks are told of attempts (SV-10).
func environment(first job.Request, attempts []job.Attempt) []string {
	number := strconv.Itoa(len(attempts))
	env := []string{"MPIEXEC_ATTEMPT=" + number, "MPIEXEC_RESTARTS_LEFT=" + Left(first.Restart, attempts)}
	for _, launcher := range first.Compat {
		if name := restartCount(launcher); name != "" {
			env = append(env, name+"="+number)
		}
	}
	if len(attempts) == 0 {
		return env
	}
	last := attempts[len(attempts)-1]
	return append(env, "MPIEXEC_RESTART_REASON="+string(last.Kind), "MPIEXEC_LOST_NODES="+strings.Join(last.Lost, ","),
		"MPIEXEC_PREVIOUS_SIZE="+strconv.Itoa(last.Size))
}
