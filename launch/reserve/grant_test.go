package reserve

import (
	"testing"

	"remshell/gpu"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// A grant reduces a node's CPUs and GPUs. Equal nodes share one restricted topology.
func TestConfineProbe(t *testing.T) {
	node := job.Probe{
		Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0, 2}, CoreLocation: pin.UnknownLocation}, {CPUs: []int{1, 3}, CoreLocation: pin.UnknownLocation}}},
		GPUs:     []gpu.GPU{{Vendor: gpu.NVIDIA, Index: 0, Address: "a"}, {Vendor: gpu.NVIDIA, Index: 1, Address: "b"}, {Vendor: gpu.NVIDIA, Index: 2, Address: "c"}},
	}
	withheld := node
	withheld.WithheldGPUs = 1
	tests := []struct {
		name         string
		of           job.Probe
		cpus, gpus   string // granted
		want         string
		left         string // GPUs
		withheldGPUs int
	}{
		{"no grant", node, "", "", "0-3", "0,1,2 (nvidia)", 0},
		{"CPUs", node, "1-2", "", "1-2", "0,1,2 (nvidia)", 0},
		{"GPUs", node, "", "1-2", "0-3", "1,2 (nvidia)", 1},
		{"unordered", node, "3", "2,0", "3", "0,2 (nvidia)", 1},
		{"GPUs it does not have", node, "", "7", "0-3", "", 3},
		{"GPUs that are numbered anew, since some are withheld", withheld, "", "7", "0-3", "0,1,2 (nvidia)", 1},
	}
	for _, test := range tests {
		def, made := job.NodeDef{GrantedCPUs: pin.CPUGrant{List: test.cpus, From: "L"}, GrantedGPUs: test.gpus}, make(map[grantKey]pin.Topology)
		for range 2 {
			p, err := confineProbe(test.of, def, made)
			if got := idset.Text(p.Topology.UsableCPUs()); err != nil || got != test.want || gpu.FormatGPUs(p.GPUs) != test.left || p.WithheldGPUs != test.withheldGPUs {
				t.Errorf("%s: CPUs %s, GPUs %s, %d withheld, %v; want %s, %s, %d", test.name, got, gpu.FormatGPUs(p.GPUs), p.WithheldGPUs, err, test.want, test.left, test.withheldGPUs)
			}
		}
		if len(made) > 1 {
			t.Errorf("%s: %d topologies of one", test.name, len(made))
		}
	}
	if _, err := confineProbe(node, job.NodeDef{GrantedCPUs: pin.CPUGrant{List: "9", From: "L"}}, make(map[grantKey]pin.Topology)); err == nil {
		t.Error("a list of CPUs that it does not have leaves something")
	}
}
