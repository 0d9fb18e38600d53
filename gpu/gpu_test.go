package gpu_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/gpu"
	"remshell/test/pintest"
)

// mayOpenAll allows all devices.
func mayOpenAll(string) bool { return true }

// capturedGPUs reads the GPUs of a captured node.
func capturedGPUs(t *testing.T, name string) []gpu.GPU {
	t.Helper()
	return gpu.Read(pintest.CapturedRoot(t, "../testdata/nodes", name), mayOpenAll).GPUs
}

// describeGPUs formats GPUs as "nvidia 0 1b:00.0 numa 0", with tiles.
func describeGPUs(gpus []gpu.GPU) string {
	var lines []string
	for _, g := range gpus {
		line := fmt.Sprintf("%s %d %s numa %d %s", g.Vendor, g.Index, g.Address, g.NUMA, g.Driver)
		if g.Tiles != nil {
			line += fmt.Sprint(" tiles ", g.Tiles)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestRead(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"vm-2", ""},
		{"gpu-dgx-8", `
nvidia 0 0000:1b:00.0 numa 0 nvidia
nvidia 1 0000:43:00.0 numa 0 nvidia
nvidia 2 0000:52:00.0 numa 0 nvidia
nvidia 3 0000:61:00.0 numa 0 nvidia
nvidia 4 0000:9d:00.0 numa 1 nvidia
nvidia 5 0000:c3:00.0 numa 1 nvidia
nvidia 6 0000:d1:00.0 numa 1 nvidia
nvidia 7 0000:df:00.0 numa 1 nvidia`},
		// KFD's order is the reverse of the bus order, and includes the graphics of the processor.
		{"gpu-amd-4", `
amd 0 0000:c7:00.0 numa 1 amdgpu
amd 1 0000:83:00.0 numa 1 amdgpu
amd 3 0000:43:00.0 numa 0 amdgpu
amd 4 0000:03:00.0 numa 0 amdgpu`},
		{"gpu-amd-parts", `
amd 0 0002:1b:00.0 numa 0 amdgpu
amd 1 0002:1b:00.1 numa 0 amdgpu`},
		// The GPU on bus 0 counts in the index, but is not returned.
		{"gpu-arc", `
intel 1 0000:03:00.0 numa -1 xe`},
		{"gpu-max-3", `
intel 0 0000:18:00.0 numa 0 i915 tiles [0 1]
intel 1 0000:2a:00.0 numa 0 i915 tiles [2 3]
intel 2 0000:8a:00.0 numa 1 i915 tiles [4 5]`},
		{"gpu-vm-2", `
nvidia 0 0000:00:05.0 numa -1 nvidia
nvidia 1 0000:00:06.0 numa -1 nvidia`},
		{"gpu-mixed", `
nvidia 0 0000:17:00.0 numa 0 nvidia
nvidia 1 0000:65:00.0 numa 0 nvidia
nvidia 2 10000:01:00.0 numa 1 nvidia
amd 0 0000:0a:00.0 numa 0 amdgpu`},
	} {
		if got := describeGPUs(capturedGPUs(t, test.name)); got != strings.TrimPrefix(test.want, "\n") {
			t.Errorf("%s:\n%s\nwant%s", test.name, got, test.want)
		}
	}
}

// As in the runtimes, a device that may not be opened is neither returned nor counted in the index.
func TestWithheldDevices(t *testing.T) {
	for _, test := range []struct {
		name, barred, want string
		left               int
	}{
		{"gpu-dgx-8", "dev/nvidia0 dev/nvidia2", "43=0 61=1 9d=2 c3=3 d1=4 df=5", 2},
		{"gpu-amd-4", "dev/dri/renderD131 dev/dri/renderD132", "83=0 43=1 03=2", 2},
		{"gpu-arc", "dev/dri/renderD128", "03=0", 0},
		{"gpu-arc", "dev/dri/renderD129", "", 1},
		{"gpu-max-3", "dev/dri/renderD128", "2a=0 8a=1", 1},
	} {
		found := gpu.Read(pintest.CapturedRoot(t, "../testdata/nodes", test.name), func(name string) bool {
			return !slices.Contains(strings.Fields(test.barred), name)
		})
		var got []string
		for _, g := range found.GPUs {
			got = append(got, fmt.Sprintf("%s=%d", g.Address[5:7], g.Index))
		}
		if text := strings.Join(got, " "); text != test.want || found.Withheld != test.left {
			t.Errorf("%s without %s: %s, %d barred; want %s, %d", test.name, test.barred, text, found.Withheld, test.want, test.left)
		}
	}
}

func TestOfBestVendor(t *testing.T) {
	for name, want := range map[string]string{"gpu-mixed": "0,1,2 (nvidia)", "gpu-arc": "1 (intel)", "gpu-amd-4": "0,1,3,4 (amd)", "vm-2": ""} {
		if got := gpu.FormatGPUs(gpu.OfBestVendor(capturedGPUs(t, name))); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	two := append(capturedGPUs(t, "gpu-arc"), capturedGPUs(t, "gpu-vm-2")[:1]...)
	if got := gpu.FormatGPUs(gpu.OfBestVendor(two)); got != "0 (nvidia)" {
		t.Errorf("one of each: %s", got)
	}
}

func TestVisibleEnv(t *testing.T) {
	for _, test := range []struct {
		name, env, want string
		take            []int
	}{
		{"gpu-dgx-8", "", "CUDA_VISIBLE_DEVICES=2,5 CUDA_DEVICE_ORDER=PCI_BUS_ID", []int{2, 5}},
		{"gpu-amd-4", "", "ROCR_VISIBLE_DEVICES=3", []int{2}},
		{"gpu-arc", "", "ZE_AFFINITY_MASK=1 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1", []int{0}},
		{"gpu-max-3", "", "ZE_AFFINITY_MASK=2,3 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_FLAT_DEVICE_HIERARCHY=FLAT", []int{1}},
		{"gpu-max-3", "COMBINED", "ZE_AFFINITY_MASK=2,3 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1", []int{1}},
		{"gpu-max-3", "COMPOSITE", "ZE_AFFINITY_MASK=1,2 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1", []int{1, 2}},
		{"gpu-dgx-8", "", "", nil},
	} {
		have := capturedGPUs(t, test.name)
		var mine []gpu.GPU
		for _, i := range test.take {
			mine = append(mine, have[i])
		}
		got := strings.Join(gpu.VisibleEnv(mine, func(string) string { return test.env }), " ")
		if got != test.want {
			t.Errorf("%s %v: %s; want %s", test.name, test.take, got, test.want)
		}
	}
	for _, assignment := range gpu.HiddenEnv() {
		if name, _, _ := strings.Cut(assignment, "="); !slices.Contains(gpu.Variables, name) {
			t.Errorf("%s is not among those that a rank has from nowhere else", name)
		}
	}
}

func TestAllowedByEnv(t *testing.T) {
	for _, test := range []struct{ name, env, want string }{
		{"gpu-dgx-8", "", "0,1,2,3,4,5,6,7 (nvidia)"},
		{"gpu-dgx-8", "ROCR_VISIBLE_DEVICES=0", "0,1,2,3,4,5,6,7 (nvidia)"},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=2,3", "2,3 (nvidia)"},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=3, 2", "2,3 (nvidia)"},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=2,-1,3", "2 (nvidia)"},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=-1", ""},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=", ""},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=NoDevFiles", ""},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=GPU-a1111111-1d2c-4b6a-9f00-0123456789ab,GPU-a3", "1,3 (nvidia)"},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=GPU-", ""},
		{"gpu-dgx-8", "CUDA_VISIBLE_DEVICES=MIG-a1111111-1d2c-4b6a-9f00-0123456789ab", ""},
		{"gpu-amd-4", "ROCR_VISIBLE_DEVICES=0,3", "0,3 (amd)"},
		{"gpu-amd-4", "ROCR_VISIBLE_DEVICES=0,3 HIP_VISIBLE_DEVICES=1", "3 (amd)"},
		{"gpu-amd-4", "ROCR_VISIBLE_DEVICES=-1", ""},
		{"gpu-amd-4", "ROCR_VISIBLE_DEVICES=GPU-2aa,gpu-0bb00000000000bb", "0,1 (amd)"},
		{"gpu-amd-4", "ROCR_VISIBLE_DEVICES=GPU-77", ""},
		{"gpu-arc", "ZE_AFFINITY_MASK=default", "1 (intel)"},
		{"gpu-max-3", "ZE_AFFINITY_MASK=2,3", "1 (intel)"},
		{"gpu-max-3", "ZE_AFFINITY_MASK=2 ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "2 (intel)"},
		{"gpu-max-3", "ZE_AFFINITY_MASK=0.1 ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "0 (intel)"},
		{"gpu-max-3", "ZE_AFFINITY_MASK=", "0,1,2 (intel)"},
		{"gpu-max-3", "ZE_AFFINITY_MASK=-1", ""},
		{"gpu-mixed", "CUDA_VISIBLE_DEVICES=", "0 (amd)"},
	} {
		root := pintest.CapturedRoot(t, "../testdata/nodes", test.name)
		value := func(name string) (string, bool) {
			rest, there := " "+test.env, false
			if _, rest, there = strings.Cut(rest, " "+name+"="); !there {
				return "", false
			}
			for _, next := range []string{" HIP_", " ZE_"} {
				rest, _, _ = strings.Cut(rest, next)
			}
			return rest, true
		}
		left := gpu.AllowedByEnv(gpu.Read(root, mayOpenAll).GPUs, value, func(g gpu.GPU) string { return gpu.UUID(root, g) })
		if got := gpu.FormatGPUs(left); got != test.want {
			t.Errorf("%s with %s: %s; want %s", test.name, test.env, got, test.want)
		}
	}
}

func TestChooseForRank(t *testing.T) {
	dgx, vm := capturedGPUs(t, "gpu-dgx-8"), capturedGPUs(t, "gpu-vm-2")
	on := func(nodes ...int) func(int) bool { return func(n int) bool { return slices.Contains(nodes, n) } }
	woven := []gpu.GPU{dgx[0], dgx[4], dgx[1], dgx[5]}
	for _, test := range []struct {
		free    []gpu.GPU
		n       int
		hasCPUs func(int) bool
		want    string
	}{
		{dgx, 1, on(0, 1), "0"},
		{dgx, 1, on(1), "4"},
		{dgx, 2, on(1), "4,5"},
		{dgx, 1, on(), "0"},
		{dgx[3:], 2, on(0, 1), "3,4"},
		{woven, 2, on(0, 1), "0,1"},
		{woven, 3, on(0, 1), "0,1,4"},
		{vm, 2, on(), "0,1"},
	} {
		if got, _, _ := strings.Cut(gpu.FormatGPUs(gpu.ChooseForRank(test.free, test.n, test.hasCPUs)), " "); got != test.want {
			t.Errorf("%d of %s: %s; want %s", test.n, gpu.FormatGPUs(test.free), got, test.want)
		}
	}
}

func TestAssignNear(t *testing.T) {
	dgx, vm := capturedGPUs(t, "gpu-dgx-8"), capturedGPUs(t, "gpu-vm-2")
	for _, test := range []struct {
		free  []gpu.GPU
		wants []gpu.Demand
		want  string
	}{
		{dgx, []gpu.Demand{{N: 1, NUMA: []int{0}}, {N: 1, NUMA: []int{1}}, {N: 1, NUMA: []int{0}}}, "0 | 4 | 1"},
		{dgx, []gpu.Demand{{N: 2, NUMA: []int{1}}, {}, {N: 2, NUMA: []int{0, 1}}}, "4,5 |  | 0,1"},
		// A rank without GPUs nearby does not take those near the next rank.
		{dgx[3:5], []gpu.Demand{{N: 1}, {N: 1, NUMA: []int{0}}}, "4 | 3"},
		{dgx[3:], []gpu.Demand{{N: 2, NUMA: []int{0}}, {N: 1, NUMA: []int{1}}}, "3,5 | 4"},
		{vm, []gpu.Demand{{N: 1, NUMA: []int{0}}, {N: 1}}, "0 | 1"},
	} {
		var got []string
		seen := make(map[string]bool)
		for _, gpus := range gpu.AssignNear(test.free, test.wants) {
			text, _, _ := strings.Cut(gpu.FormatGPUs(gpus), " ")
			got = append(got, text)
			for _, address := range gpu.Addresses(gpus) {
				if seen[address] {
					t.Errorf("%s twice", address)
				}
				seen[address] = true
			}
		}
		if text := strings.Join(got, " | "); text != test.want {
			t.Errorf("%v: %s; want %s", test.wants, text, test.want)
		}
	}
}

// WithIndices selects GPUs by index; an empty list selects all.
func TestWithIndices(t *testing.T) {
	all := []gpu.GPU{{Vendor: gpu.NVIDIA, Index: 0}, {Vendor: gpu.NVIDIA, Index: 1}, {Vendor: gpu.NVIDIA, Index: 2}, {Vendor: gpu.NVIDIA, Index: 10}}
	for list, want := range map[string]string{"": "0,1,2,10 (nvidia)", "1": "1 (nvidia)", "10,0-1": "0,1,10 (nvidia)", "3-9": "", "2-1": "", "x": ""} {
		if got := gpu.FormatGPUs(gpu.WithIndices(all, list)); got != want {
			t.Errorf("%q: %s; want %s", list, got, want)
		}
	}
}
