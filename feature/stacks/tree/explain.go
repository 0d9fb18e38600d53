package tree

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
)

// A Guess says which ranks probably keep the others waiting.
type Guess struct {
	Ranks []int
	Why   string // a sentence without its end
}

// Explain guesses which ranks keep the others waiting. groups must be as Merge returns them. Explain returns false if
// most ranks do not wait in a call of MPI or another communication library. It also returns false if no group of ranks
// differs from the others.
func Explain(groups []job.StackGroup) (g Guess, ok bool) {
	main := mainThreads(groups)
	most, call, all := -1, "", 0
	calls := make(map[string]int)
	for i, g := range main {
		all += len(g.Ranks)
		if name := InMPI(g); name != "" && g.State != job.StackStopped {
			if calls[name] += len(g.Ranks); call == "" || calls[name] > calls[call] {
				call = name
			}
			if most < 0 {
				most = i
			}
		}
	}
	if call == "" {
		return g, false
	}
	best := 0
	for i, other := range main {
		why, weight := whyElsewhere(other, main[most], call)
		if i == most || weight == 0 || weight < best {
			continue
		}
		if weight > best {
			g, best = Guess{Why: why}, weight
		}
		g.Ranks = append(g.Ranks, other.Ranks...)
	}
	if best == 0 || best <= weightCall && 2*len(g.Ranks) > all {
		return g, false
	}
	if g.Ranks = idset.New(g.Ranks...); len(g.Ranks) > 1 {
		g.Why = ofSeveral(g.Why)
	}
	return g, true
}

// ofSeveral converts a reason of whyElsewhere to the plural, for several ranks.
func ofSeveral(why string) string {
	verb, rest, _ := strings.Cut(strings.TrimPrefix(why, "it "), " ")
	plural := map[string]string{"is": "they are", "has": "they have", "computes": "they compute", "waits": "they wait", "its": "their"}[verb]
	return plural + " " + rest
}

// These are the weights of reasons for a guess. Of two groups, the one with the larger weight is more likely
// to keep the others waiting.
const (
	weightPlace   = 1 + iota // in the same call at another place
	weightCall               // in another call
	weightRuns               // outside of MPI, computes
	weightSleeps             // outside of MPI, waits in the kernel
	weightUnknown            // its stack could not be read
	weightStopped
	weightEnded
)

// whyElsewhere returns the reason why group g may keep group largest waiting, and the weight of the reason. The ranks
// of largest are in the given call. weight is 0 if g is in the same call at the same place.
func whyElsewhere(g, largest job.StackGroup, call string) (reason string, weight int) {
	name := InMPI(g)
	switch {
	case g.State == job.StackEnded:
		return "the rank has ended", weightEnded
	case g.State == job.StackStopped:
		return "the rank is stopped by a signal", weightStopped
	case g.Note != "" && len(g.Frames) == 0:
		return "the stack of the rank could not be read", weightUnknown
	case name == call:
		if key(g) == key(largest) {
			return "", 0
		}
		return "it is in " + call + " at another place of the program", weightPlace
	case name != "":
		return fmt.Sprintf("it is in %s, most are in %s", name, call), weightCall
	case g.State == job.StackRuns:
		return "it computes outside of " + familyOf(call), weightRuns
	}
	return "it waits in the kernel, outside of " + familyOf(call), weightSleeps
}

// AllAlike reports whether all ranks wait in one MPI call at one place.
func AllAlike(groups []job.StackGroup) (call string, alike bool) {
	main := mainThreads(groups)
	if len(main) != 1 || len(main[0].Ranks) < 2 {
		return "", false
	}
	call = InMPI(main[0])
	return call, call != ""
}

func mainThreads(groups []job.StackGroup) []job.StackGroup {
	return slices.DeleteFunc(slices.Clone(groups), func(g job.StackGroup) bool { return g.Thread != "" })
}
