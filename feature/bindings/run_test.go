//go:build linux

package bindings

import (
	"strings"
	"testing"

	"remshell/helper/probe"
	"remshell/idset"
	"remshell/launch/launchtest"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// What is reported comes from the kernel, before the output of the ranks. Without the setting nothing is reported.
func TestBindingsComeFromTheKernel(t *testing.T) {
	here, err := probe.Node(probe.RootFS(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	const look = "sed -n 's/Cpus_allowed_list:.//p' /proc/self/status"
	for _, unbound := range []bool{false, true} {
		r := launchtest.NewRun(1, look, "a")
		r.Req.NoPin, r.Settings = unbound, []wire.Setting{new(Request)}
		if result, err := r.Do(t); err != nil || result.Code != 0 {
			t.Fatalf("code %d, %v: %s", result.Code, err, r.Err.String())
		}
		want := "rank 0 a not bound"
		if !unbound {
			cpus, err := idset.Parse(strings.TrimSpace(r.Out.String()), 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			want = "rank 0 a " + here.Topology.DescribeCPUs(cpus)
		}
		if !strings.HasPrefix(r.Err.String(), want) {
			t.Errorf("unbound %v: reported %q, want %q", unbound, r.Err.String(), want)
		}
	}
	r := launchtest.NewRun(1, look, "a")
	if result, err := r.Do(t); err != nil || result.Code != 0 || strings.Contains(r.Err.String(), "rank 0") {
		t.Errorf("not asked: code %d, %v, %s", result.Code, err, r.Err.String())
	}
}
