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
	DefaultDelay  = 5 * time.Second  // the first pause, unless another is asked for
	maxPause      = 5 * time.Minute  // pause
	resetAfter    = 10 * time.Minute // an attempt that ran so long lets the pauses begin anew
	tooShort      = 10 * time.Second // an attempt that ran shorter shows that it is no use
	maxShortInRow = 5                // so many of these in a row end a job that would be started for ever
)

// KeepTime is how long nodes and claims are kept for the next attempt (SV-2).
const KeepTime = 10 * time.Minute

// SearchTime is how long a job looks for room before it gives up (SV-5).
const SearchTime = 10 * time.Minute

// A Decision is what becomes of a job whose last attempt is over.
type Decision struct {
	Restarts bool
	Pause    time.Duration // before
	Why      string        // it is over although its end is a reason to start again; empty: it is none
}

// Decide decides after the last of a job's attempts, of which there is one of this mpiexec at least. luck is from 0
// to 1, and lengthens the pause by up to a fifth: jobs that fell together do not rise together.
func Decide(p job.RestartPolicy, attempts []job.Attempt, luck float64) Decision {
	attempts = attempts[p.PastAttempts:]
	last := attempts[len(attempts)-1]
	if !last.Kind.IsFailure() {
		return Decision{Restarts: true}
	}
	attempts = withoutMoves(attempts)
	switch {
	case p.MaxRestarts == 0 || !p.AppliesTo(last.Kind, last.Exit):
		return Decision{}
	case len(attempts) > p.MaxRestarts:
		return Decision{Why: fmt.Sprintf("no restarts left (%d)", p.MaxRestarts)}
	case p.MaxRestarts == job.UnlimitedRestarts && allTooShort(attempts):
		return Decision{Why: fmt.Sprintf("five attempts in a row ran less than %v", tooShort)}
	}
	return Decision{Restarts: true, Pause: pause(p.Delay, attempts, luck)}
}

// allTooShort reports whether the last attempts were all over at once.
func allTooShort(attempts []job.Attempt) bool {
	if len(attempts) < maxShortInRow {
		return false
	}
	return !slices.ContainsFunc(attempts[len(attempts)-maxShortInRow:], func(a job.Attempt) bool { return a.Duration() >= tooShort })
}

// pause doubles from one attempt to the next, until one runs for long.
func pause(first time.Duration, attempts []job.Attempt, luck float64) time.Duration {
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
	return p + time.Duration(luck*float64(p)/5)
}

// withoutMoves are the attempts that were not ended to be moved: that is no failure, and counts for nothing.
func withoutMoves(attempts []job.Attempt) []job.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a job.Attempt) bool { return !a.Kind.IsFailure() })
}

// RestartsUsed is how many restarts attempts have taken that are over, the one behind the last of them included.
func RestartsUsed(p job.RestartPolicy, attempts []job.Attempt) int {
	return len(withoutMoves(attempts[min(p.PastAttempts, len(attempts)):]))
}

// RestartsLeft writes how many restarts there may be after these attempts and the one that follows: a number, or "unlimited".
func RestartsLeft(p job.RestartPolicy, attempts []job.Attempt) string {
	if p.MaxRestarts == job.UnlimitedRestarts {
		return "unlimited"
	}
	return strconv.Itoa(p.MaxRestarts - RestartsUsed(p, attempts))
}

// RestartNumber writes which restart of how many follows these attempts: "1 of 3", "1".
func RestartNumber(p job.RestartPolicy, attempts []job.Attempt) string {
	if p.MaxRestarts == job.UnlimitedRestarts {
		return strconv.Itoa(RestartsUsed(p, attempts))
	}
	return fmt.Sprintf("%d of %d", RestartsUsed(p, attempts), p.MaxRestarts)
}

// NextRequest is what is asked for the attempt that follows those that there were; with none, the
// first. Nodes that are not there are no fault any more.
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

// Tiers of candidates (SV-4): those that had ranks and live come first, in their order; then spares; then
// those that had nothing, by the sort key; last those that were lost, and are back. A job that is moved goes where
// it was planned to go, and nowhere else.
func nextCandidates(first job.Request, attempts []job.Attempt) []job.NodeDef {
	last := attempts[len(attempts)-1]
	troubles := make(map[string]int)
	for _, a := range attempts[min(first.Restart.PastAttempts, len(attempts)-1):] {
		for _, name := range slices.Concat(a.Lost, a.Failed) {
			troubles[name]++
		}
	}
	tiers := make(map[string]int, len(last.Nodes)+len(last.StandbyNodes))
	for i, name := range slices.Concat(last.Nodes, last.StandbyNodes) {
		tiers[name] = i
	}
	leaves := leftNodes(attempts)
	nodes := slices.Clone(first.Nodes)
	for i := range nodes {
		n := &nodes[i]
		tier, had := tiers[n.Name]
		switch {
		case leaves[n.Name]:
			n.ExcludedWhy = "the job was moved away from it"
		case last.NextNodes != nil:
			if n.Tier = slices.Index(last.NextNodes, n.Name); n.Tier < 0 {
				n.Tier, n.ExcludedWhy = 0, "the job is moved to others"
			}
		case troubles[n.Name] > 1:
			n.ExcludedWhy = "it was lost twice"
		case troubles[n.Name] == 1:
			n.Tier = len(last.Nodes) + len(last.StandbyNodes) + 1
		case had:
			n.Tier = tier
		default:
			n.Tier = len(last.Nodes) + len(last.StandbyNodes)
		}
	}
	return nodes
}

// nextApps get the arguments of attempts that are not the first; the last may have fewer ranks
// (SV-5).
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

// attemptVariables is what ranks are told of attempts (SV-10).
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
