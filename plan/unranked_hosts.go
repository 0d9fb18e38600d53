package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
)

// unrankedHostsNote returns a note about listed hosts that got no rank because the hosts before them had enough CPUs.
// Users of Hydra expect one rank on each host of a list without counts. any is false if no note is needed.
func (s *placement) unrankedHostsNote() (note job.Note, any bool) {
	counted := slices.ContainsFunc(s.candidates, func(c candidate) bool { return c.Slots > 0 || c.MaxSlots > 0 })
	if !s.req.AllHosts || s.req.Attempt > 0 || len(s.req.Apps) > 1 || s.req.FixedPlacements != nil || s.req.RoundRobin || s.req.Layout.Map.Text != "" || counted {
		return note, false
	}
	app := s.req.Apps[0]
	if app.N == 0 || app.PerNode > 0 || app.ExactPerNode > 0 || len(s.assigned) < 2 {
		return note, false
	}
	var names []string
	hosts, least := 0, len(s.assigned)
	for _, i := range distinctCandidates(s.entries, len(s.candidates)) {
		c := &s.candidates[i]
		if c.free == 0 {
			continue
		}
		hosts++
		least = min(least, c.free/max(1, app.CPUsPerRank))
		if s.ranksOn[i] == 0 {
			names = append(names, c.Name)
		}
	}
	if names == nil {
		return note, false
	}
	option := "--map-by node"
	if each := (len(s.assigned) + hosts - 1) / hosts; each <= least {
		option = fmt.Sprintf("-ppn %d or %s", each, option)
	}
	return job.Note{Code: "unranked", Text: fmt.Sprintf("%s got no rank; to use all hosts, use %s", hostlist.FoldBrief(names), option)}, true
}
