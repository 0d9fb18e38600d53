package reserve

import (
	"testing"

	"remshell/job"
	"remshell/pin"
)

// A helper may change the binding of ranks only if nothing is said about binding.
func TestSaysNoBinding(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*job.Request, *job.NodeDef)
		want   bool
	}{
		"nothing said":       {func(*job.Request, *job.NodeDef) {}, true},
		"--map-by":           {func(r *job.Request, _ *job.NodeDef) { r.Layout.Map.Text = "core" }, true},
		"--bind-to":          {func(r *job.Request, _ *job.NodeDef) { r.Layout.Bind.Text = "core:if-supported" }, false},
		"binding= of a host": {func(_ *job.Request, n *job.NodeDef) { n.Bind = new(pin.Binding) }, false},
		"memory":             {func(r *job.Request, _ *job.NodeDef) { r.Layout.Mem.Text = "local" }, false},
		"a CPU map":          {func(r *job.Request, _ *job.NodeDef) { r.CPUMap = []int{1, 0} }, false},
		"a rank file":        {func(r *job.Request, _ *job.NodeDef) { r.FixedPlacements = []job.FixedPlacement{{}} }, true},
		"CPUs of a rank file": {func(r *job.Request, _ *job.NodeDef) {
			r.FixedPlacements = []job.FixedPlacement{{Picks: []pin.CPURange{{}}}}
		}, false},
		"NUMA nodes": {func(r *job.Request, _ *job.NodeDef) { r.Apps[0].NUMA.StrictMemory = true }, false},
	} {
		req, def := job.Request{Apps: []job.App{{}}}, job.NodeDef{}
		test.change(&req, &def)
		if got := isBindingUnspecified(req, def); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
