package reserve

import (
	"strings"
	"testing"

	"remshell/job"
)

// A spawn may use what the job could have used: neither nodes that its list does not name, nor those of a
// region that is closed to the job.
func TestSpawnsKeepTheSelection(t *testing.T) {
	req := job.Request{HostEntries: []int{0, 2, 3}}
	for _, name := range []string{"a", "unlisted", "full", "gated"} {
		req.Nodes = append(req.Nodes, job.NodeDef{Name: name})
	}
	req.Class, req.Contiguous, req.Regions, req.Memory = "wide", job.ContiguousFirst, []job.Region{{Name: "main"}}, 7
	req.HugePages = job.HugePagesRequired
	r := &reservation{req: req, plan: job.Plan{Rejected: []job.Note{{Code: "cpus-full", Node: "full"}, {Code: "region", Node: "gated"}}}}
	r.keepSelection()
	var names []string
	for _, i := range r.req.HostEntries {
		names = append(names, r.req.Nodes[i].Name)
	}
	if got := strings.Join(names, " "); got != "a full" || len(r.req.Nodes) != 2 {
		t.Errorf("candidates %s of %d nodes", got, len(r.req.Nodes))
	}
	if r.req.Class != "wide" || r.req.Memory != 7 || r.req.HugePages != job.HugePagesRequired || r.req.Contiguous != "" || r.req.Regions != nil {
		t.Errorf("%+v", r.req.NodeSelection)
	}
	r.req.FixedPlacements, r.plan.Rejected = []job.FixedPlacement{{Node: 1}}, []job.Note{{Code: "region", Node: "full"}}
	if r.keepSelection(); len(r.req.Nodes) != 2 {
		t.Error("fixed placements of a rank file name nodes by index")
	}
}
