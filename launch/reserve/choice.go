package reserve

import (
	"slices"

	"remshell/job"
)

// keepChoice leaves of a request that has its place what holds for spawns: they go to the candidates
// of the job, of which those are none that its list does not name, or that are closed to it by their
// flavor, class or region, and nothing is chosen anew.
func (r *reservation) keepChoice() {
	if r.req.RankFile == nil {
		listed, closed := r.req.Listed(), make(map[string]bool)
		for _, note := range r.plan.Rejected {
			if slices.Contains([]string{"flavor", "class", "region"}, note.Code) {
				closed[note.Node] = true
			}
		}
		keepNodes(&r.req, func(def job.NodeDef) bool { return listed[def.Name] && !closed[def.Name] })
	}
	of := r.req.Choosing
	r.req.Choosing = job.Choosing{Class: of.Class, Reserve: of.Reserve, Memory: of.Memory}
}
