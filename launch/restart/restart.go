/*
Package restart decides whether, when and with which request a job is restarted after an attempt has ended (survive.md
3). It performs no I/O.

	attempts so far --Decide--> the job is over, or restarts after a pause
	   |
	   '--- and the first request --NextRequest--> request of the next attempt

The loop that runs attempts is in package launch.
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

// These constants say how long the pauses between attempts are, and when a job whose attempts fail quickly is no longer
// restarted (rule SV-6).
const (
	DefaultDelay  = 5 * time.Second  // first pause, unless the user sets another
	maxPause      = 5 * time.Minute  // longest pause
	resetAfter    = 10 * time.Minute // after an attempt that ran this long, pauses start short again
	tooShort      = 10 * time.Second // an attempt that ran shorter made no progress
	maxShortInRow = 5                // after this many such attempts in a row the job is not restarted
)

// KeepTime is how long a job keeps its nodes and claims for the next attempt (one run of all
// ranks; rule SV-2).
const KeepTime = 10 * time.Minute

// SearchTime is how long a restart looks for free nodes before it gives up (rule SV-5).
const SearchTime = 10 * time.Minute

// A Decision says whether a job is restarted after its last attempt, and after which pause.
type Decision struct {
	Restarts bool
	Pause    time.Duration // before the next attempt
	Why      string        // why there is no restart although the cause is a reason for one; empty: it is no reason
}

// Decide decides whether to restart a job after its last attempt. The attempts must include one that this mpiexec has
// run. random is a number from 0 to 1. It lengthens the pause by up to a fifth, so that jobs that failed together do
// not restart together.
func Decide(p job.RestartPolicy, attempts []job.Attempt, random float64) Decision {
	attempts = attempts[p.PastAttempts:]
	last := attempts[len(attempts)-1]
	if !last.Kind.CountsAsFailure() {
		return Decision{Restarts: true}
	}
	attempts = withoutMoves(attempts)
	switch {
	case p.MaxRestarts == 0 || !p.AppliesTo(last.Kind, last.Exit):
		return Decision{}
	case len(attempts) > p.MaxRestarts:
		return Decision{Why: fmt.Sprintf("--restart %d allows no more restarts", p.MaxRestarts)}
	case p.MaxRestarts == job.UnlimitedRestarts && allTooShort(attempts):
		return Decision{Why: fmt.Sprintf("each of the last five attempts ran for less than %v", tooShort)}
	}
	return Decision{Restarts: true, Pause: pause(p.Delay, attempts, random)}
}

// allTooShort reports whether the last maxShortInRow attempts each ran for less than tooShort.
func allTooShort(attempts []job.Attempt) bool {
	if len(attempts) < maxShortInRow {
		return false
	}
	return !slices.ContainsFunc(attempts[len(attempts)-maxShortInRow:], func(a job.Attempt) bool { return a.Duration() >= tooShort })
}

// pause returns the pause before the next attempt. The first pause is first, or DefaultDelay if first is 0. The pause
// doubles with each attempt, and is reset after an attempt that ran long.
func pause(first time.Duration, attempts []job.Attempt, random float64) time.Duration {
	first = cmp.Or(first, DefaultDelay)
	p := first
	for _, a := range attempts[1:] {
		if p = min(2*p, maxPause); a.Duration() >= resetAfter {
			p = first
		}
	}
	if attempts[len(attempts)-1].Duration() >= resetAfter {
		p = first
	}
	return p + time.Duration(random*float64(p)/5)
}

// withoutMoves returns the attempts except those that ended because the job was moved. Moving a job is not a failure
// and does not count as a restart.
func withoutMoves(attempts []job.Attempt) []job.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a job.Attempt) bool { return !a.Kind.CountsAsFailure() })
}

// RestartsUsed returns how many restarts a job has used, including the restart that follows the last of the given
// attempts.
func RestartsUsed(p job.RestartPolicy, attempts []job.Attempt) int {
	return len(withoutMoves(attempts[min(p.PastAttempts, len(attempts)):]))
}

// RestartsLeft returns how many restarts remain after these attempts and the next one. The result is a number, or
// "unlimited".
func RestartsLeft(p job.RestartPolicy, attempts []job.Attempt) string {
	if p.MaxRestarts == job.UnlimitedRestarts {
		return "unlimited"
	}
	return strconv.Itoa(p.MaxRestarts - RestartsUsed(p, attempts))
}

// RestartNumber returns which restart follows these attempts, such as "1 of 3", or "1" if restarts are
// unlimited.
func RestartNumber(p job.RestartPolicy, attempts []job.Attempt) string {
	if p.MaxRestarts == job.UnlimitedRestarts {
		return strconv.Itoa(RestartsUsed(p, attempts))
	}
	return fmt.Sprintf("%d of %d", RestartsUsed(p, attempts), p.MaxRestarts)
}

// NextRequest returns the request for the attempt that follows the given attempts. If attempts is empty, it returns the
// request of the first attempt. Attempts after the first skip nodes that cannot be reached.
func NextRequest(first job.Request, attempts []job.Attempt) job.Request {
	req := first
	if !first.Restart.AllowsSeveral() {
		return req
	}
	req.GlobalEnv = append(slices.Clone(first.GlobalEnv), attemptVariables(first, attempts)...)
	if len(attempts) == 0 {
		return req
	}
	req.SkipUnreachable = true
	req.Nodes = nextCandidates(first, attempts)
	req.Apps = nextApps(first)
	req.Streams.Out.Append, req.Streams.Err.Append = true, true
	req.Attempt = len(attempts)
	return req
}

// nextCandidates returns the candidates for the next attempt in the order of preference (rule SV-4). Nodes that had
// ranks and were not lost come first. They are followed by standby nodes, then by unused nodes in the order of --sort,
// and finally by nodes that were lost once. After a move, the new plan's nodes are the only candidates.
func nextCandidates(first job.Request, attempts []job.Attempt) []job.NodeDef {
	last := attempts[len(attempts)-1]
	failures := make(map[string]int)
	for _, a := range attempts[min(first.Restart.PastAttempts, len(attempts)-1):] {
		for _, name := range slices.Concat(a.Lost, a.Failed) {
			failures[name]++
		}
	}
	tiers := make(map[string]int, len(last.Nodes)+len(last.StandbyNodes))
	for i, name := range slices.Concat(last.Nodes, last.StandbyNodes) {
		tiers[name] = i
	}
	leftNames := leftNodes(attempts)
	nodes := slices.Clone(first.Nodes)
	for i := range nodes {
		n := &nodes[i]
		tier, had := tiers[n.Name]
		switch {
		case leftNames[n.Name]:
			n.ExcludedWhy = "the job was moved away from this host"
		case last.NextNodes != nil:
			if n.Tier = slices.Index(last.NextNodes, n.Name); n.Tier < 0 {
				n.Tier, n.ExcludedWhy = 0, "the job moves to other hosts"
			}
		case failures[n.Name] > 1:
			n.ExcludedWhy = "the job lost contact with this host twice"
		case failures[n.Name] == 1:
			n.Tier = len(last.Nodes) + len(last.StandbyNodes) + 1
		case had:
			n.Tier = tier
		default:
			n.Tier = len(last.Nodes) + len(last.StandbyNodes)
		}
	}
	return nodes
}

// nextApps returns the app contexts of an attempt after the first, with arguments that the user has requested
// for restarts. The last app context may have fewer ranks than in the first attempt (rule SV-5).
func nextApps(first job.Request) []job.App {
	apps := slices.Clone(first.Apps)
	for i := range apps {
		apps[i].Argv = slices.Concat(apps[i].Argv, first.Restart.ExtraArgs)
	}
	last := &apps[len(apps)-1]
	if least := first.Restart.MinRanks; least > 0 && last.N > least && last.Soft == nil {
		for n := last.N; n >= least; n-- {
			last.Soft = append(last.Soft, n)
		}
		last.N = 0
	}
	return apps
}

// restartCount returns the name of the environment variable in which a launcher, such as torchrun, passes the
// number of restarts. It returns "" if the launcher has no such variable.
func restartCount(launcher string) string {
	if launcher == "torch" {
		return "TORCHELASTIC_RESTART_COUNT"
	}
	if s := batch.Named(launcher); s != nil {
		return s.Identity.Restarts
	}
	return ""
}

// attemptVariables returns the environment variables that tell ranks which attempt they belong to (rule SV-10).
func attemptVariables(first job.Request, attempts []job.Attempt) []string {
	number := strconv.Itoa(len(attempts))
	env := []string{"MPIEXEC_ATTEMPT=" + number, "MPIEXEC_RESTARTS_LEFT=" + RestartsLeft(first.Restart, attempts)}
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
