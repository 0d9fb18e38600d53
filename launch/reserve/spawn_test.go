package reserve

import (
	"testing"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/plan"
)

// A spawn that lacks CPUs, GPUs or nodes tries more nodes. One whose request is invalid does not.
func TestSpawnLooksFurtherWhateverIsShort(t *testing.T) {
	cores := pin.Topology{Cores: []pin.Core{{CPUs: []int{0}}, {CPUs: []int{1}}}}
	card := gpu.GPU{Vendor: gpu.NVIDIA, Address: "0000:1b:00.0"}
	for name, test := range map[string]struct {
		ranks, gpus int
		sort        string
		node        job.Node
		want        bool
	}{
		"CPUs":            {3, 0, "", job.Node{}, true},
		"no node":         {1, 0, "", job.Node{Occupancy: job.Occupancy{ExclusivelyHeld: true}}, true},
		"free GPUs":       {2, 1, "", job.Node{Probe: job.Probe{GPUs: []gpu.GPU{card}}}, true},
		"GPUs in use":     {1, 1, "", job.Node{Probe: job.Probe{GPUs: []gpu.GPU{card}}, Occupancy: job.Occupancy{BusyGPUs: []string{card.Address}}}, true},
		"no GPU there":    {1, 1, "", job.Node{}, true},
		"an invalid sort": {1, 0, "nonsense", job.Node{}, false},
	} {
		test.node.NodeDef, test.node.Topology = job.NodeDef{Name: "a"}, cores
		req := job.Request{Nodes: []job.NodeDef{test.node.NodeDef}, Apps: []job.App{{N: test.ranks, RankNeeds: job.RankNeeds{GPUs: test.gpus}}}}
		req.Sort = test.sort
		_, err := plan.Make(req, job.Snapshot{Nodes: []job.Node{test.node}})
		if got := LacksCapacity(err); err == nil || got != test.want {
			t.Errorf("%s: %v: lacks capacity: %v, want %v", name, err, got, test.want)
		}
	}
}
