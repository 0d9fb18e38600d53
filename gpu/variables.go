package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// This file handles the variables that tell runtimes which GPUs a process may use. The order in which a runtime
// numbers GPUs:
//
//	NVIDIA  CUDA_VISIBLE_DEVICES  fastest first, unless CUDA_DEVICE_ORDER says by bus
//	        (CUDA programming guide, 5.2.1)
//	AMD     ROCR_VISIBLE_DEVICES  the nodes of the kernel's KFD that can be opened. AMD advises
//	        it on Linux; HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are applied by HIP
//	        alone, to what is left (ROCm: GPU isolation techniques; libhsakmt, topology.c)
//	Intel   ZE_AFFINITY_MASK      in no promised order, unless ZE_ENABLE_PCI_ID_DEVICE_ORDER
//	        says by bus; cards or, without ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE, their tiles
//	        (Level Zero: environment variables; compute-runtime, execution_environment_linux.cpp)

// Variables lists all environment variables that decide which GPUs a process sees. A rank with assigned GPUs gets only
// the variables that VisibleEnv returns. AMD's variables are applied one after the other, so a second variable would
// hide GPUs that the first one shows.
var Variables = []string{
	"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
}

// levelZeroHierarchy is the environment variable that decides whether Level Zero treats tiles of Intel's cards as
// devices.
const levelZeroHierarchy = "ZE_FLAT_DEVICE_HIERARCHY"

// VisibleEnv returns the assignments of environment variables that make gpus, and no other GPUs of their vendor,
// visible to a process. All of gpus must be of the same vendor. value returns the value of a variable of the process,
// or "" if the variable is not set.
func VisibleEnv(gpus []GPU, value func(name string) string) []string {
	if len(gpus) == 0 {
		return nil
	}
	var numbers, tiles []int
	for _, g := range gpus {
		numbers, tiles = append(numbers, g.Index), append(tiles, g.Tiles...)
	}
	switch gpus[0].Vendor {
	case NVIDIA:
		return []string{"CUDA_VISIBLE_DEVICES=" + joinNumbers(numbers), "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	case AMD:
		return []string{"ROCR_VISIBLE_DEVICES=" + joinNumbers(numbers)}
	}
	order := "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"
	if tiles == nil || strings.EqualFold(value(levelZeroHierarchy), "COMPOSITE") {
		return []string{"ZE_AFFINITY_MASK=" + joinNumbers(numbers), order}
	}
	vars := []string{"ZE_AFFINITY_MASK=" + joinNumbers(tiles), order}
	if value(levelZeroHierarchy) == "" { // older runtimes have another default
		vars = append(vars, levelZeroHierarchy+"=FLAT")
	}
	return vars
}

// HiddenEnv returns the assignments of environment variables that hide all GPUs of all vendors from a process. The
// value is -1, since no runtime has a device with that number. For Level Zero, an empty value would select all
// devices.
func HiddenEnv() []string {
	return []string{"CUDA_VISIBLE_DEVICES=-1", "ROCR_VISIBLE_DEVICES=-1", "ZE_AFFINITY_MASK=-1"}
}

// AllowedByEnv returns the GPUs of a node that the environment of mpiexec allows. A batch system or an outer mpiexec
// may have set variables that select GPUs. uuid returns the UUID of a GPU, or "" if the UUID is unknown. NVIDIA's
// and AMD's variables also accept UUIDs, even abbreviated. As in CUDA and ROCm, a list ends at the first invalid
// word.
func AllowedByEnv(all []GPU, value func(name string) (string, bool), uuid func(GPU) string) []GPU {
	named := func(g GPU, _ int, word string) bool {
		return word == strconv.Itoa(g.Index) || len(word) > len("GPU-") && strings.HasPrefix(uuid(g), word)
	}
	if text, set := value("CUDA_VISIBLE_DEVICES"); set {
		all = limitByList(all, NVIDIA, text, named)
	}
	if text, set := value("ROCR_VISIBLE_DEVICES"); set {
		all = limitByList(all, AMD, strings.ToUpper(text), named)
	}
	if text, set := value("HIP_VISIBLE_DEVICES"); set { // its indices count the GPUs that remain
		all = limitByList(all, AMD, text, func(_ GPU, index int, word string) bool { return word == strconv.Itoa(index) })
	}
	if text, _ := value("ZE_AFFINITY_MASK"); text != "" && text != "default" {
		mode, _ := value(levelZeroHierarchy)
		flat := !strings.EqualFold(mode, "COMPOSITE")
		all = limitByList(all, Intel, text, func(g GPU, _ int, word string) bool {
			word, _, _ = strings.Cut(word, ".") // one tile of the card
			number, err := strconv.Atoi(word)
			if flat && g.Tiles != nil {
				return err == nil && slices.Contains(g.Tiles, number)
			}
			return err == nil && number == g.Index
		})
	}
	return all
}

// limitByList removes the GPUs of vendor v that are not in a list. text contains the words of the list, and matches
// reports whether a word refers to a GPU. index is the position of the GPU among the GPUs of its vendor.
func limitByList(all []GPU, v Vendor, text string, matches func(g GPU, index int, word string) bool) []GPU {
	mine := ofVendor(v, all)
	shown := make(map[string]bool)
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		known := false
		for index, g := range mine {
			if matches(g, index, word) {
				shown[g.Address], known = true, true
			}
		}
		if !known && v != Intel { // Level Zero ignores it
			break
		}
	}
	return filterGPUs(all, func(g GPU) bool { return g.Vendor != v || shown[g.Address] })
}
