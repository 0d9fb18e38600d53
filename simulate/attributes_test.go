package simulate

import (
	"reflect"
	"strings"
	"testing"

	"remshell/job"
	"remshell/plan/nodeset"
)

// A saved state has the effective attributes: those of the cluster file win over those of the probe.
func TestSavedAttributes(t *testing.T) {
	n := job.Node{NodeDef: job.NodeDef{Name: "a", NodePolicy: job.NodePolicy{Networks: []string{"via", "-ethernet"}, Attributes: nodeset.Attributes{
		nodeset.ProcSpeed: {Number: nodeset.FromInt(3000)}, nodeset.Memory: {Number: nodeset.FromInt(65536)}, "RACK": {Labels: []string{"r1"}}}}},
		Probe:            job.Probe{Arch: "amd64"},
		ProbedAttributes: job.Attributes{Speed: 2000, SpeedQuality: job.SpeedNominal, Networks: []string{"eth1g", "ethernet"}, NetSpeed: 1000, CPUModel: "m"}}
	var b strings.Builder
	req := job.Request{Nodes: []job.NodeDef{n.NodeDef}, Apps: []job.App{{N: 1, Argv: []string{"a"}}}}
	if err := Save(&b, req, job.Snapshot{Nodes: []job.Node{n}}); err != nil {
		t.Fatal(err)
	}
	s, err := Parse([]byte(b.String()))
	if err != nil {
		t.Fatalf("%v of %s", err, b.String())
	}
	for _, name := range []string{nodeset.Memory, "RACK", nodeset.ProcSpeed, nodeset.Network, nodeset.NetSpeed, nodeset.Arch, nodeset.CPUModel} {
		if got, want := s.Nodes[0].Attribute(name), n.Attribute(name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, was %v", name, got, want)
		}
	}
}
