package plan

import (
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// Who is short of nodes is not told whom to ask for CPUs.
func TestTooFewNodesThatAreInUse(t *testing.T) {
	def := job.NodeDef{Name: "a", Slots: 1}
	n := job.Node{NodeDef: def, Probe: job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}}}}}}
	n.Use = job.Use{Procs: 1, Busy: []int{0}, Who: "eve", WhoJob: "eve-1"}
	req := job.Request{Nodes: []job.NodeDef{def}, Apps: []job.App{{N: 1}}}
	for least, want := range map[int]string{
		0: "a: all 1 CPU are in use by jobs of eve",
		2: "1 node can be reached, and --min-nodes wants 2",
	} {
		req.Least = least
		if _, err := Make(req, job.Snapshot{Nodes: []job.Node{n}}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("--min-nodes %d: %v, want %q", least, err, want)
		}
	}
}
