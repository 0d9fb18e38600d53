package simulate

import (
	"bytes"
	"reflect"
	"testing"

	"remshell/job"
	"remshell/pin"
	"remshell/psi"
)

// A saved state keeps the mapping options and the rank file: the plan from the file equals that of the
// run.
func TestSaveLayout(t *testing.T) {
	topology := regularTopology(8, 2, 2)
	snap := job.Snapshot{Nodes: []job.Node{
		{NodeDef: job.NodeDef{ID: 3, Name: "a"}, Probe: job.Probe{Topology: topology}},
		{NodeDef: job.NodeDef{ID: 5, Name: "b"}, Probe: job.Probe{Topology: topology}},
	}}
	ranges, err := pin.ParseCPURanges("0-1,p9;0:*")
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]job.Request{
		"policies": {Apps: []job.App{{N: 6}}},
		"threads":  {Apps: []job.App{{N: 3}}},
		"nodes":    {Apps: []job.App{{N: 2}}, FixedPlacements: []job.FixedPlacement{{Node: 1}, {Node: 0}}},
		"CPUs":     {Apps: []job.App{{N: 2}}, FixedPlacements: []job.FixedPlacement{{Node: 1, Picks: ranges}, {Node: 0, Picks: ranges[:1]}}},
	}
	for name, req := range requests {
		for _, n := range snap.Nodes {
			n.CountThreads = name == "threads"
			req.Nodes = append(req.Nodes, n.NodeDef)
		}
		if name == "policies" || name == "threads" {
			for text, read := range map[string]func([]byte) error{
				"numa:span": req.Layout.Map.UnmarshalText, "fill": req.Layout.Rank.UnmarshalText, "numa": req.Layout.Bind.UnmarshalText, "bind:1": req.Layout.Mem.UnmarshalText,
			} {
				if err := read([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
		}
		ran := Decide(req, snap, nil)
		var text bytes.Buffer
		if err := Save(&text, req, snap); err != nil || ran.Err != nil {
			t.Fatal(name, err, ran.Err)
		}
		s, err := Parse(text.Bytes())
		if err != nil {
			t.Fatal(name, err)
		}
		again := s.Decide(s.PSIInput("", psi.Flags{}, nil, nil))
		if !reflect.DeepEqual(ran.Plan.Nodes, again.Plan.Nodes) {
			t.Errorf("%s: %+v %v; in the run %+v", name, again.Plan.Nodes, again.Err, ran.Plan.Nodes)
		}
	}
}

func TestBadLayouts(t *testing.T) {
	for _, field := range []string{`"map_by": "bogus"`, `"rank_by": "bogus"`, `"bind_to": "bogus"`,
		`"fixed_placements": [{"node": 7}]`, `"fixed_placements": [{"node": 1, "cpus": "1x"}]`} {
		if _, err := Parse([]byte(`{"nodes": [{"id": 1, "name": "a", "cpus": 2}], ` + field + `}`)); err == nil {
			t.Errorf("%s: no error", field)
		}
	}
}
