package simulate

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/psi"
)

// A saved state of a gang keeps its competitors: the plan from the file equals that of the run.
func TestSaveGang(t *testing.T) {
	n := job.Node{NodeDef: job.NodeDef{ID: 3, Name: "a"}, Probe: job.Probe{Topology: regularTopology(2, 1, 1)}, Gang: job.GangTerms{Parties: 3, Slice: 1500 * time.Millisecond},
		Occupancy: job.Occupancy{Ranks: 2, BoundRanks: 2, BusyCPUs: []int{0, 1}, GangMemory: 1 << 20,
			GangCPUs: []job.GangCPUs{{GangJob: job.GangJob{Job: "x", Party: 0}, CPUs: []int{0, 1}}, {GangJob: job.GangJob{Job: "y", Party: 2}, CPUs: []int{1}}}}}
	req := job.Request{Nodes: []job.NodeDef{n.NodeDef}, Apps: []job.App{{N: 2}}, Placement: job.Placement{Gang: true}}
	ran := Decide(req, job.Snapshot{Nodes: []job.Node{n}}, nil)
	var text, plan bytes.Buffer
	if err := Save(&text, req, job.Snapshot{Nodes: []job.Node{n}}); err != nil || ran.Err != nil {
		t.Fatal(err, ran.Err)
	}
	s, err := Parse(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	again := s.Decide(s.PSIInput("", psi.Flags{}, nil, nil))
	if !reflect.DeepEqual(ran.Plan.Gang, again.Plan.Gang) || !reflect.DeepEqual(ran.Plan.GangCompetitors, again.Plan.GangCompetitors) || !reflect.DeepEqual(ran.Plan.Nodes, again.Plan.Nodes) {
		t.Errorf("%+v %v; in the run %+v", again.Plan, again.Err, ran.Plan)
	}
	const want = `"gang": {"party":1,"parties":3,"slice_seconds":1.5,"share":0.3333333333333333,"shares_with":[{"job":"x","party":0},{"job":"y","party":2}]}`
	if err := Write(&plan, again); err != nil || !strings.Contains(plan.String(), want) {
		t.Errorf("no %s in\n%s", want, plan.String())
	}
	for _, bad := range []string{`{"parties": 17, "slice_seconds": 10}`, `{"parties": 4, "slice_seconds": 0}`, `{"parties": 4, "slice_seconds": 1e300}`,
		`{"parties": 4, "slice_seconds": 10, "jobs": [{"job": "x", "party": 4, "cpus": [0]}]}`, `{"parties": 4, "slice_seconds": 10, "memory": -1, "jobs": [{"job": "x", "party": 1}]}`} {
		if _, err := Parse([]byte(`{"nodes": [{"id": 1, "name": "a", "cpus": 2, "gangs": ` + bad + `}]}`)); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}
