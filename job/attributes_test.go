package job

import (
	"fmt"
	"strings"
	"testing"

	"remshell/plan/nodeset"
)

// The examples of which-hosts.md 2.1.
func TestInstalled(t *testing.T) {
	for mib, want := range map[int64]int64{64218: 65536, 128800: 131072, 31900: 32768, 65536: 65536, 1: 1, 15: 15, 17: 18, 0: 0} {
		if got := (Memory{Total: mib<<20 + 1<<19}).Installed() >> 20; got != want {
			t.Errorf("%d MiB: %d, want %d", mib, got, want)
		}
	}
}

func TestIsLabel(t *testing.T) {
	for text, want := range map[string]bool{"ib-hdr": true, "0x41_b.c+D": true, "": false, "a b": false, "a*": false, "ä": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false} {
		if IsLabel(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// Attributes of the probe have the names that node sets use. The cluster file overrides them.
func TestProbedAttributes(t *testing.T) {
	n := Node{Probe: Probe{Arch: "amd64"}, ProbedAttributes: Attributes{Speed: 2400, SpeedQuality: SpeedNominal, NetSpeed: 1000, Networks: []string{"eth1g"}, CPUModel: "m", GPUModels: []string{"g", "h"}}}
	for name, want := range map[string]string{nodeset.ProcSpeed: "2400 []", nodeset.NetSpeed: "1000 []", nodeset.Network: "0 [eth1g]", nodeset.GPUModel: "0 [g h]",
		nodeset.CPUModel: "0 [m]", nodeset.Arch: "0 [x86_64]", nodeset.Memory: "0 []", "RACK": "0 []"} {
		if v := n.Attribute(name); fmt.Sprint(v.Number, v.Labels) != want {
			t.Errorf("%s: %v %v, want %s", name, v.Number, v.Labels, want)
		}
	}
	n.Attributes = nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(3000)}}
	if v := n.Attribute(nodeset.ProcSpeed); v.Number != nodeset.FromInt(3000) {
		t.Errorf("procspeed of the cluster file: %v", v.Number)
	}
	n = Node{}
	if v := n.Attribute(nodeset.Arch); v.Known() {
		t.Errorf("the architecture of nothing is %v", v)
	}
}
