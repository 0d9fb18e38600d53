package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/stack"
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
	call, all := "", 0
	calls := make(map[string]int)
	for _, g := range main {
		all += len(g.Ranks)
		if name := InMPI(g); name != "" && g.State != job.StackStopped {
			if calls[name] += len(g.Ranks); call == "" || calls[name] > calls[call] {
				call = name
			}
		}
	}
	if call == "" {
		return g, false
	}
	most := slices.IndexFunc(main, func(g job.StackGroup) bool { return InMPI(g) == call && g.State != job.StackStopped })
	var best reason
	for i, other := range main {
		r := whyElsewhere(other, main[most], call)
		if i == most || r.weight == 0 || r.weight < best.weight {
			continue
		}
		if r.weight > best.weight {
			g, best = Guess{}, r
		}
		g.Ranks = append(g.Ranks, other.Ranks...)
	}
	if best.weight == 0 || best.weight <= weightCall && 2*len(g.Ranks) >= all {
		return g, false
	}
	if g.Ranks, g.Why = idset.New(g.Ranks...), best.ofOne; len(g.Ranks) > 1 {
		g.Why = best.ofSeveral
	}
	return g, true
}

// A reason says why ranks may keep others waiting. It has one text for a single rank and one for several ranks. The
// zero reason means that the ranks do not keep others waiting.
type reason struct {
	ofOne, ofSeveral string
	weight           int
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

// whyElsewhere returns the reason why group g may keep group largest waiting. The ranks of largest wait in the given
// call. The reason is zero if g waits in the same call, made at the same place of the program. It is also zero if
// another process traces the ranks of g, because then it is unknown where they are.
func whyElsewhere(g, largest job.StackGroup, call string) reason {
	name := InMPI(g)
	switch {
	case isTraced(g): // a debugger may let it run, as strace does
		return reason{}
	case g.State == job.StackEnded:
		return reason{"the rank has ended", "the ranks have ended", weightEnded}
	case g.State == job.StackStopped:
		return reason{"the rank is stopped by " + cmp.Or(g.Signal, "a signal"), "the ranks are stopped by a signal", weightStopped}
	case g.Note != "" && len(g.Frames) == 0:
		return reason{"the stack of the rank could not be read", "the stacks of the ranks could not be read", weightUnknown}
	case name == call && key(g) == key(largest):
		return reason{}
	case name == call:
		return reason{fmt.Sprintf("it called %s from another place in the program", call), fmt.Sprintf("they called %s from another place in the program", call), weightPlace}
	case name != "":
		return reason{fmt.Sprintf("it is in %s, but most ranks are in %s", name, call), fmt.Sprintf("they are in %s, but most ranks are in %s", name, call), weightCall}
	case g.State == job.StackRuns:
		return reason{"it computes outside of " + familyOf(call), "they compute outside of " + familyOf(call), weightRuns}
	}
	return reason{"it waits in the kernel, outside of " + familyOf(call), "they wait in the kernel, outside of " + familyOf(call), weightSleeps}
}

// isTraced reports whether the stacks of a group could not be read because another process traces its ranks.
func isTraced(g job.StackGroup) bool {
	return len(g.Frames) == 0 && strings.HasSuffix(g.Note, stack.TracedNote)
}

// traced returns the ranks whose stacks could not be read because another process traces them.
func traced(groups []job.StackGroup) (ranks []int) {
	for _, g := range mainThreads(groups) {
		if isTraced(g) {
			ranks = append(ranks, g.Ranks...)
		}
	}
	return idset.New(ranks...)
}

// AllAlike reports whether all ranks wait in the same call of MPI or another communication library, made at the same
// place of the program. It returns false if there is only one rank.
func AllAlike(groups []job.StackGroup) (call string, alike bool) {
	main := mainThreads(groups)
	if len(main) != 1 || len(main[0].Ranks) < 2 {
		return "", false
	}
	call = InMPI(main[0])
	return call, call != ""
}

// Computing returns the ranks in which a thread other than the main thread computes. It ignores threads that spin
// while they wait for the next parallel part of the program (OpenMP).
func Computing(r job.StackReport) (ranks []int) {
	for _, g := range r.Groups {
		if g.Thread == "" || g.State != job.StackRuns || InMPI(g) != "" || len(g.Frames) > 0 && isOpenMP(g.Frames[len(g.Frames)-1].Library) {
			continue
		}
		ranks = append(ranks, g.Ranks...)
	}
	return idset.New(ranks...)
}

// isOpenMP reports whether a library contains the run-time system of OpenMP.
func isOpenMP(library string) bool {
	return strings.HasPrefix(library, "libgomp.") || strings.HasPrefix(library, "libiomp") || strings.HasPrefix(library, "libomp.")
}

func mainThreads(groups []job.StackGroup) []job.StackGroup {
	return slices.DeleteFunc(slices.Clone(groups), func(g job.StackGroup) bool { return g.Thread != "" })
}
