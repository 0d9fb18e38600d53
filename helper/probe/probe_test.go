//go:build linux

package probe

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"remshell/job"
)

func TestProbeOfThisMachine(t *testing.T) {
	p, err := Node(RootFS(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if p.Hostname != host || p.Arch != runtime.GOARCH || p.Kernel == "" || p.Topology.CountUsableCores() == 0 || p.Load[0] < 0 ||
		p.Memory.Available <= 0 || p.Memory.Total < p.Memory.Available || time.Since(p.NodeTime) > time.Minute {
		t.Errorf("probe %+v", p)
	}
	again, err := Node(os.DirFS("/"), nil)
	if err != nil || again.Identity != p.Identity {
		t.Errorf("identity %q, then %q, %v", p.Identity, again.Identity, err)
	}
}

func TestIdentityHasBootID(t *testing.T) {
	boot := func(id string) string {
		return Identity(fstest.MapFS{"proc/sys/kernel/random/boot_id": {Data: []byte(id + "\n")}})
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
		if got := parseLoad(line); got != want {
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
		got, err := AllowedCPUs(status(line))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", line, got, err, want)
		}
	}
	for online, want := range map[string][]int{"0-1\n": {0, 1}, "0-7,9\n": {0, 1, 2, 3}, "5\n": {0, 1, 2, 3}, "x\n": {0, 1, 2, 3}} {
		root := status("Cpus_allowed_list:\t0-3\n")
		root["sys/devices/system/cpu/online"] = &fstest.MapFile{Data: []byte(online)}
		if got, err := AllowedCPUs(root); err != nil || !slices.Equal(got, want) {
			t.Errorf("of 0-3, online %q: %v, %v, want %v", online, got, err, want)
		}
	}
	for name, root := range map[string]fstest.MapFS{
		"no line": status(""), "junk": status("Cpus_allowed_list:\tx-y\n"), "no /proc": {},
	} {
		if got, err := AllowedCPUs(root); err == nil {
			t.Errorf("%s: %v without an error", name, got)
		}
	}
}

func TestMemory(t *testing.T) {
	none := job.HugePages{Probed: true} // meminfo was read, but has no lines about huge pages
	for text, want := range map[string]job.Memory{
		"MemTotal:       24684092 kB\nMemFree:  5 kB\nMemAvailable:   23774960 kB\n": {Total: 24684092 << 10, Available: 23774960 << 10, HugePages: none},
		"MemTotal: 7 kB\nMemFree: 5 kB\n":                                            {Total: 7 << 10, HugePages: none},
		"MemTotal: x kB\nMemAvailable: 7\n":                                          {},
		"":                                                                           {},
		"MemTotal: 9 kB\nAnonHugePages: 4 kB\nHugePages_Total:     512\nHugePages_Free:      100\nHugePages_Rsvd:        3\nHugepagesize:       2048 kB\nHugetlb: 1048576 kB\n": {
			Total: 9 << 10, HugePages: job.HugePages{Probed: true, Size: 2 << 20, Total: 512, Free: 100}},
		"MemTotal: 9 kB\nHugePages_Total: 5\nHugePages_Free: 5\nHugepagesize: -1 kB\n": {Total: 9 << 10, HugePages: none},
	} {
		if got := readMemory(fstest.MapFS{"proc/meminfo": {Data: []byte(text)}}); got != want {
			t.Errorf("memory(%q) = %v, want %v", text, got, want)
		}
	}
}

// A RootFS reads the same as os.ReadFile, also files larger than its first buffer.
func TestDisk(t *testing.T) {
	folder := t.TempDir()
	for _, size := range []int{0, 1, 511, 512, 513, 2048, 10000} {
		want := []byte(strings.Repeat("x", size))
		if err := os.WriteFile(folder+"/file", want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := RootFS(folder).ReadFile("file"); err != nil || string(got) != string(want) {
			t.Errorf("%d bytes: %d bytes, %v", size, len(got), err)
		}
	}
	if err := fstest.TestFS(RootFS(folder), "file"); err != nil {
		t.Error(err)
	}
	if _, err := RootFS(folder).ReadFile("none"); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestModel(t *testing.T) {
	for alias, want := range map[string]string{
		"cpu:type:x86,ven0000fam0006mod00CF:feature:,0000,0001,0002\n": "x86,ven0000fam0006mod00CF with 3 features",
		"cpu:type:aarch64:feature:,0000\n":                             "aarch64 with 1 features",
		"":                                                             "",
	} {
		root := fstest.MapFS{"sys/devices/system/cpu/modalias": {Data: []byte(alias)}}
		if got := cpuType(root); got != want {
			t.Errorf("%q: %q, want %q", alias, got, want)
		}
	}
}
