package simulate

import (
	"bytes"
	"reflect"
	"testing"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
)

// A saved probe result is unchanged after reading it from the file.
func TestSavedNodesComeBack(t *testing.T) {
	cores := []pin.Core{
		{CPUs: []int{0, 4}, CoreLocation: pin.CoreLocation{NUMA: 0, Package: 1, L3: 0, L2: 0, Kind: pin.Performance}},
		{CPUs: []int{1}, Unusable: []int{5}, CoreLocation: pin.CoreLocation{NUMA: 8, Package: 0, L3: 0, L2: 1, Kind: pin.Efficiency}},
		{Unusable: []int{2}, CoreLocation: pin.UnknownLocation},
	}
	want := job.Node{Confined: true, NodeDef: job.NodeDef{Name: "a", Host: "a"}, Probe: job.Probe{
		Topology: pin.Topology{Cores: cores}, Load: [3]float64{0.5, -1, 2}, Memory: job.Memory{Total: 1 << 40, Available: 77,
			HugePages: job.HugePages{Probed: true, Size: 2 << 20, Total: 9, Free: 4}},
		GPUs:         []gpu.GPU{{Vendor: gpu.Intel, Index: 1, Tiles: []int{2, 3}, Address: "0000:2a:00.0", NUMA: -1, Driver: "xe"}},
		WithheldGPUs: 1,
	}, ProbedAttributes: job.Attributes{Speed: 3700, SpeedQuality: job.SpeedTurbo}, Occupancy: job.Occupancy{BusyGPUs: []string{"0000:2a:00.0"}}}
	req := job.Request{Apps: []job.App{{N: 1, RankNeeds: job.RankNeeds{GPUs: job.NoGPUs}}}, Nodes: []job.NodeDef{want.NodeDef}}
	var file bytes.Buffer
	if err := Save(&file, req, job.Snapshot{Nodes: []job.Node{want}}); err != nil {
		t.Fatal(err)
	}
	s, err := Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if s.GPUs != job.NoGPUs {
		t.Errorf("GPUs %d", s.GPUs)
	}
	if !reflect.DeepEqual(s.Nodes[0], want) {
		t.Errorf("saved\n%s\nread %+v\nwant %+v", file.String(), s.Nodes[0], want)
	}
}
