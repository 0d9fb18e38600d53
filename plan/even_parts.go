package plan

import (
	"fmt"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file divides the free CPUs of a node evenly among its ranks (job.RankNeeds.AllCPUs). The choice of
// a rank's node depends on its CPUsPerRank alone.

// slotsPerRank returns the number of slots of each rank on a node. Each rank gets CPUsPerRank slots. The free slots
// that remain are divided evenly among the ranks of apps with AllCPUs, but only if the ranks are bound and do not share
// CPUs.
func (s *placement) slotsPerRank(n *candidate, ranks []job.RankPlan, slots []pin.Unit) []int {
	widths := make([]int, len(ranks))
	left, parts := min(len(pin.FreeSlots(slots, n.busy)), n.CPUs()-n.slotsOfOthers()), 0
	for i := range ranks {
		widths[i] = s.threadsPerRank(&ranks[i])
		left -= widths[i]
		if s.req.Apps[ranks[i].App].AllCPUs {
			parts++
		}
	}
	if parts == 0 || left < parts || s.sharesCPUs || n.sharesOwnCPUs || n.unboundByClaims || !s.bindsRanksOn(n) {
		return widths
	}
	for i := range ranks {
		if s.req.Apps[ranks[i].App].AllCPUs {
			widths[i] += left / parts
		}
	}
	return widths
}

// evenPartNotes returns notes about nodes on which the CPUs are divided evenly among the ranks. One note says how many
// CPUs each rank gets. Another note says that ranks share GPUs, if they do.
func (s *placement) evenPartNotes(plans []job.NodePlan) (notes []job.Note) {
	least, most, more, seen := 0, 0, false, false
	for _, p := range plans {
		for i := range p.Ranks {
			r := &p.Ranks[i]
			app := s.req.Apps[r.App]
			if !app.AllCPUs {
				continue
			}
			if width := len(r.Slots); r.CPUs != nil {
				more = more || width > s.threadsPerRank(r)
				if most = max(most, width); least == 0 || width < least {
					least = width
				}
			}
			seen = seen || app.GPUs == 0 && len(p.Ranks) > 1 && len(gpu.OfBestVendor(s.candidates[s.assigned[r.Rank].candidate].GPUs)) > 0
		}
	}
	if more {
		cpus := text.Count(most, "CPU")
		if least < most {
			cpus = fmt.Sprintf("%d to %s", least, cpus)
		}
		notes = append(notes, job.Note{Code: "even-parts", Text: fmt.Sprintf("each rank gets %s, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N", cpus)})
	}
	if seen {
		notes = append(notes, job.Note{Code: "all-gpus", Text: "each rank sees all GPUs of its host; to give each rank a GPU of its own, use -gpus-per-proc 1"})
	}
	return notes
}
