package plan

import (
	"slices"

	"remshell/job"
	"remshell/sort"
)

// A problem is a request with what is known of its candidates.
type problem struct {
	req        job.Request
	candidates []candidate
	turns      []int // indices into candidates, as the user gave them; some may repeat
	of         []int // the candidate of a node of the request
	mode       sort.Mode
}

// A solution is what the stages made of a problem, as far as they came.
type solution struct {
	usable    [][]bool // by part of the job and candidate
	rejected  []job.Note
	placement *placement
}

// solve finds a place for each rank. With an error nothing is placed.
func (p problem) solve() (solution, *Error) {
	var found solution
	found.usable, found.rejected = judge(p.req, p.candidates, p.turns)
	if failed := p.tooFew(); failed != nil {
		return found, failed
	}
	var failed *Error
	for _, turns := range p.choose(found.usable) {
		order := sort.Turns(nodesOf(p.candidates), turns, p.mode)
		found.placement = newPlacement(p.req, p.candidates, p.of, order)
		if failed = found.placement.all(found.usable); failed == nil {
			break
		}
	}
	return found, failed
}

// choose lists the sets of candidates that are tried, the first that fits being taken: today
// one, of all that some part of the job may use (2, 4.).
func (p problem) choose(usable [][]bool) (sets [][]int) {
	all := slices.DeleteFunc(slices.Clone(p.turns), func(turn int) bool {
		return !slices.ContainsFunc(usable, func(may []bool) bool { return may[turn] })
	})
	return [][]int{all}
}

// fits reports whether a problem has a solution.
func (p problem) fits() bool {
	_, failed := p.solve()
	return failed == nil
}

// idle is the problem as it would be if every node of the list were idle and reachable (6.2).
// In which order they are filled makes no difference to whether there is room.
func (p problem) idle() problem {
	p.mode = sort.None
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		p.candidates[i] = p.candidates[i].ideal()
	}
	return p
}

// mayEverFit is fits for idle nodes. One whose size nobody has seen may be as large as it
// takes, and have as many GPUs.
func (p problem) mayEverFit() bool {
	gpus := slices.ContainsFunc(p.req.Apps, func(app job.App) bool { return wantedGPUs(app) > 0 })
	unseen := func(turn int) bool {
		c := &p.candidates[turn]
		return len(c.Topology.Cores) == 0 && (c.Slots == 0 || gpus) && allowed(p.req, c)
	}
	return p.tooFew() == nil && (slices.ContainsFunc(p.turns, unseen) || p.fits())
}
