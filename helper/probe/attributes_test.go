//go:build linux

package probe

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"remshell/job"
	"remshell/test/pintest"
)

// The attributes of each captured machine (which-hosts.md 2.1).
func TestAttributes(t *testing.T) {
	networks := func(words string) []string { return strings.Fields(words) }
	for name, want := range map[string]job.Attributes{
		"hdr": {Speed: 2000, SpeedQuality: job.SpeedNominal, CPUModel: "genuineintel-6-143", NetSpeed: 200000,
			Networks: networks("eth1g ethernet ib ib-hdr infiniband ipoib rdma")},
		"roce": {Speed: 2450, SpeedQuality: job.SpeedNominal, CPUModel: "authenticamd-25-1", NetSpeed: 50000,
			Networks: networks("eth25g eth2g eth50g ethernet rdma roce")},
		"kvm": {Speed: 2200, SpeedQuality: job.SpeedNominal, CPUModel: "genuineintel-6-79", NetSpeed: 100000,
			Networks: networks("efa eth100 ethernet rdma")},
		"slingshot": {Speed: 3401, SpeedQuality: job.SpeedTurbo, CPUModel: "arm-0x41-0xd4f", NetSpeed: 200000,
			Networks: networks("eth200g ethernet slingshot")},
		"power9": {Speed: 3800, SpeedQuality: job.SpeedMeasured, NetSpeed: 100000,
			Networks: networks("eth10g ethernet myrinet omnipath rdma")},
		"bare": {Speed: 2700, SpeedQuality: job.SpeedMeasured},
		"odd": {CPUModel: "ven-dor--tm--x-" + strings.Repeat("y", 49),
			Networks: networks("ethernet ib infiniband rdma")},
	} {
		if got := Attributes(pintest.CapturedRoot(t, "../../testdata/nodes", "traits-"+name), nil); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// The speed is the smallest one of the CPUs that may be used, and of no others.
func TestSpeedOfAllowedCPUs(t *testing.T) {
	root := pintest.CapturedRoot(t, "../../testdata/nodes", "traits-hdr")
	for list, want := range map[string]int{"0-2": 2000, "0,3": 2000, "0-4": 800, "4": 800} {
		root["proc/self/status"] = &fstest.MapFile{Data: []byte("Cpus_allowed_list:\t" + list + "\n")}
		if got := Attributes(root, nil); got.Speed != want {
			t.Errorf("CPUs %s: %d MHz, want %d", list, got.Speed, want)
		}
	}
}

// On a machine without any of the files, all attributes are unknown, without an error.
func TestAttributesOfNothing(t *testing.T) {
	if got := Attributes(fstest.MapFS{}, nil); !reflect.DeepEqual(got, job.Attributes{}) {
		t.Errorf("%+v", got)
	}
}

// A machine with more interfaces than labels are allowed still has valid attributes.
func TestAttributesAreBounded(t *testing.T) {
	root := fstest.MapFS{}
	for i := range 3 * job.MaxLabels {
		dir := fmt.Sprintf("sys/class/net/e%d/", i)
		root[dir+"type"] = &fstest.MapFile{Data: []byte("1")}
		root[dir+"operstate"] = &fstest.MapFile{Data: []byte("up")}
		root[dir+"speed"] = &fstest.MapFile{Data: fmt.Append(nil, 1000*(i+1))}
	}
	if got := Attributes(root, nil); len(got.Networks) != job.MaxLabels || got.NetSpeed != 3000*job.MaxLabels {
		t.Errorf("%d labels, %d Mb/s", len(got.Networks), got.NetSpeed)
	}
}

// Every label of this machine is valid.
func TestAttributesOfThisMachine(t *testing.T) {
	got := Attributes(RootFS(""), nil)
	all := slices.Concat(got.Networks, got.GPUModels)
	if got.CPUModel != "" {
		all = append(all, got.CPUModel)
	}
	for _, label := range all {
		if !job.IsLabel(label) || label != strings.ToLower(label) {
			t.Errorf("label %q", label)
		}
	}
	if known := got.Speed > 0; known != slices.Contains(job.SpeedQualities, got.SpeedQuality) {
		t.Errorf("%d MHz, %q", got.Speed, got.SpeedQuality)
	}
}

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]int{"2.40": 2400, "2": 2000, "2.": 2000, "2.67549": 2675, "0.1": 100} {
		if got, ok := parseDecimal(text, 3); !ok || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ".5", "-1", "1e3", "1.2.3", "12345678901", "x", "1.x"} {
		if got, ok := parseDecimal(text, 3); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func BenchmarkAttributes(b *testing.B) {
	for b.Loop() {
		Attributes(RootFS(""), nil)
	}
}
