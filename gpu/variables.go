package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// This file knows the variables by which the runtimes are told what a process may see, and
// how they count:
//
//	NVIDIA  CUDA_VISIBLE_DEVICES  fastest first, unless CUDA_DEVICE_ORDER says by bus
//	        (CUDA programming guide, 5.2.1)
//	AMD     ROCR_VISIBLE_DEVICES  the nodes of the kernel's KFD that can be opened. AMD advises
//	        it on Linux; HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are applied by HIP
//	        alone, to what is left (ROCm: GPU isolation techniques; libhsakmt, topology.c)
//	Intel   ZE_AFFINITY_MASK      in no promised order, unless ZE_ENABLE_PCI_ID_DEVICE_ORDER
//	        says by bus; cards or, without ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE, their tiles
//	        (Level Zero: environment variables; compute-runtime, execution_environment_linux.cpp)

// Variables are all that decide which GPUs a process sees. A rank that is given GPUs has
// none of them from elsewhere: AMD's are applied one after the other, and the second would
// hide what the first shows.
var Variables = []string{
	"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
}

// levelZeroHierarchy says whether Intel's tiles are devices of their own.
const levelZeroHierarchy = "ZE_FLAT_DEVICE_HIERARCHY"

// VisibleEnv lists the assignments that show a process these GPUs, of one vendor, and no others
// of it. value looks up what the process has in its environment; "" is nothing.
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
	if value(levelZeroHierarchy) == "" { // older runtimes take another for granted
		vars = append(vars, levelZeroHierarchy+"=FLAT")
	}
	return vars
}

// HiddenEnv are the assignments that show a process no GPU of any vendor. No runtime has a
// device of this number; an empty value would mean all of them to Level Zero.
func HiddenEnv() []string {
	return []string{"CUDA_VISIBLE_DEVICES=-1", "ROCR_VISIBLE_DEVICES=-1", "ZE_AFFINITY_MASK=-1"}
}

// AllowedByEnv are those of a node's GPUs that the variables of our own environment let us see:
// what a batch system, or the launch of which we are a rank, has given us. uuid finds the
// name of a GPU that NVIDIA's and AMD's variables take as well, or the beginning of it; "" if
// unknown. A word that means nothing ends a list, as CUDA and ROCm have it.
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
	if text, set := value("HIP_VISIBLE_DEVICES"); set { // counts what is left
		all = limitByList(all, AMD, text, func(_ GPU, at int, word string) bool { return word == strconv.Itoa(at) })
	}
	if text, _ := value("ZE_AFFINITY_MASK"); text != "" && text != "default" {
		mode, _ := value(levelZeroHierarchy)
		flat := !strings.EqualFold(mode, "COMPOSITE")
		all = limitByList(all, Intel, text, func(g GPU, _ int, word string) bool {
			word, _, _ = strings.Cut(word, ".") // a card of which a tile is left
			number, err := strconv.Atoi(word)
			if flat && g.Tiles != nil {
				return err == nil && slices.Contains(g.Tiles, number)
			}
			return err == nil && number == g.Index
		})
	}
	return all
}

// limitByList keeps those GPUs of a vendor that a list means.
func limitByList(all []GPU, v Vendor, text string, means func(g GPU, at int, word string) bool) []GPU {
	mine := ofVendor(v, all)
	shown := make(map[string]bool)
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		known := false
		for at, g := range mine {
			if means(g, at, word) {
				shown[g.Address], known = true, true
			}
		}
		if !known && v != Intel { // Level Zero passes over it
			break
		}
	}
	return filterGPUs(all, func(g GPU) bool { return g.Vendor != v || shown[g.Address] })
}
