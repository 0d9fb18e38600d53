package reserve

import (
	"testing"

	"remshell/job"
	"remshell/pin"
)

// The universe size is the slots of all hosts on which the job's ranks may run, even if the first group
// uses one host only. It is the same for every group; -usize overrides it.
func TestTheUniverseIsAllHostsThatMaySpawn(t *testing.T) {
	machine := func(cores int, identity string) job.Probe {
		p := job.Probe{Identity: identity}
		for c := range cores {
			p.Topology.Cores = append(p.Topology.Cores, pin.Core{CPUs: []int{c}})
		}
		return p
	}
	maxProcs := 2
	nodes := []job.Node{
		{NodeDef: job.NodeDef{Name: "a", Slots: 1}, Probe: machine(8, "A")},
		{NodeDef: job.NodeDef{Name: "b"}, Probe: machine(4, "B")},
		{NodeDef: job.NodeDef{Name: "alias"}, Probe: machine(4, "B")},
		{NodeDef: job.NodeDef{Name: "more", Slots: 2}, Probe: machine(4, "B")},
		{NodeDef: job.NodeDef{Name: "few", NodePolicy: job.NodePolicy{MaxProcs: &maxProcs}}, Probe: machine(8, "F")},
	}
	for name, test := range map[string]struct {
		names   []string // of the nodes above; an unknown name was not reached
		entries []int    // host entries; nil: all
		spawn   job.SpawnHosts
		reject  job.Note
		want    int
	}{
		"one host":                           {names: []string{"a"}, want: 1},
		"a host without ranks":               {names: []string{"a", "b"}, want: 5},
		"two names of a machine":             {names: []string{"b", "alias"}, want: 4},
		"slots of two names":                 {names: []string{"b", "more"}, want: 6},
		"a host that was not reached":        {names: []string{"a", "away"}, want: 1},
		"a host of the cluster alone":        {names: []string{"a", "b"}, entries: []int{0}, want: 1},
		"the administrator's limit":          {names: []string{"a", "few"}, want: 3},
		"a host that is busy":                {names: []string{"a", "b"}, reject: job.Note{Node: "b", Code: "cpus-full"}, want: 5},
		"a host that is for others":          {names: []string{"a", "b"}, reject: job.Note{Node: "b", Code: "user"}, want: 1},
		"a host without what the first need": {names: []string{"a", "b"}, reject: job.Note{Node: "b", Code: "hardware"}, want: 5},
		"nothing is spawned":                 {names: []string{"a", "b"}, spawn: job.SpawnHosts{None: true}, want: 3},
		"hosts of the job":                   {names: []string{"a", "b"}, spawn: job.SpawnHosts{Job: true}, want: 1},
		"hosts for spawns": {names: []string{"a", "b"}, want: 9,
			spawn: job.SpawnHosts{Any: true, List: []job.NodeDef{{Name: "b"}, {Name: "c", Slots: 3}, {Name: "d"}}}},
	} {
		req := job.Request{SpawnHosts: test.spawn, HostEntries: test.entries}
		var reached []job.Node
		for _, n := range test.names {
			def := job.NodeDef{Name: n}
			for _, known := range nodes {
				if known.Name == n {
					def, reached = known.NodeDef, append(reached, known)
				}
			}
			req.Nodes = append(req.Nodes, def)
		}
		p := job.Plan{Size: 3, Nodes: []job.NodePlan{{Name: "a"}}, Rejected: []job.Note{test.reject}}
		if got := totalSlots(req, reached, p); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	for size, want := range map[int]int{0: 0, job.SystemSize: 5, 7: 7} {
		if got := universeSize(job.Request{Universe: size}, Baseline{Slots: 5}); got != want {
			t.Errorf("-usize %d: %d, want %d", size, got, want)
		}
	}
}
