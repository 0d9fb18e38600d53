//go:build linux

package helper

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestProbeOfThisMachine(t *testing.T) {
	p, err := Probe(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if p.Hostname != host || p.Arch != runtime.GOARCH || p.Kernel == "" || p.Topology.Units() == 0 || p.Load[0] < 0 {
		t.Errorf("probe %+v", p)
	}
	again, err := Probe(os.DirFS("/"))
	if err != nil || again.Identity != p.Identity {
		t.Errorf("identity %q, then %q, %v", p.Identity, again.Identity, err)
	}
}

func TestIdentityKnowsTheBoot(t *testing.T) {
	boot := func(id string) string {
		return identity(fstest.MapFS{"proc/sys/kernel/random/boot_id": {Data: []byte(id + "\n")}})
	}
	if boot("a") == boot("b") {
		t.Error("two boots are one machine")
	}
	if boot("a") != boot("a") {
		t.Error("one boot is two machines")
	}
	if id := boot("a"); !strings.HasPrefix(id, "a pid:[") || !strings.Contains(id, " ipc:[") || strings.Contains(id, "\n") {
		t.Errorf("identity %q lacks the boot or a namespace", id)
	}
}

func TestLoads(t *testing.T) {
	for line, want := range map[string][3]float64{
		"0.52 1.25 10.00 3/812 4711": {0.52, 1.25, 10},
		"0.52":                       {0.52, -1, -1},
		"x 1 y":                      {-1, 1, -1},
		"":                           {-1, -1, -1},
	} {
		if got := loads(line); got != want {
			t.Errorf("loads(%q) = %v, want %v", line, got, want)
		}
	}
}

func TestAllowedCPUs(t *testing.T) {
	status := func(line string) fstest.MapFS {
		return fstest.MapFS{"proc/self/status": {Data: []byte("Name:\tmpiexec\nCpus_allowed:\tff\n" + line + "Mems_allowed_list:\t0\n")}}
	}
	for line, want := range map[string][]int{
		"Cpus_allowed_list:\t0-3,8\n": {0, 1, 2, 3, 8},
		"Cpus_allowed_list:\t1500\n":  {1500}, // beyond cpu_set_t
	} {
		got, err := allowedCPUs(status(line))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", line, got, err, want)
		}
	}
	for name, root := range map[string]fstest.MapFS{
		"no line": status(""), "junk": status("Cpus_allowed_list:\tx-y\n"), "no /proc": {},
	} {
		if got, err := allowedCPUs(root); err == nil {
			t.Errorf("%s: %v without an error", name, got)
		}
	}
}
