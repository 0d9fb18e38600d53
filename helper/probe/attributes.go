//go:build linux

package probe

import (
	"io/fs"
	"maps"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/job"
)

// Attributes reads what sets of nodes are made by (which-hosts.md 2.1). root is "/", and environ the
// helper's own. It is asked for only where somebody wants to know: to open /proc/cpuinfo
// takes 10 ms on some kernels.
func Attributes(root fs.FS, environ []string) job.Attributes {
	allowed, _ := AllowedCPUs(root)
	usable, _ := usableGPUs(root, environ)
	info := readCPUInfo(root)
	t := job.Attributes{CPUModel: cpuModel(info), GPUModels: gpuModels(root, usable)}
	t.Speed, t.SpeedQuality = cpuSpeed(root, allowed, info)
	t.Networks, t.NetSpeed = networks(root)
	return t
}

// gpuModels are the models of GPUs, each once.
func gpuModels(root fs.FS, gpus []gpu.GPU) []string {
	found := make(labelSet)
	for _, g := range gpus {
		found.addLabels(gpu.Model(root, g))
	}
	return found.sorted()
}

// A labelSet is words that a node is known by.
type labelSet map[string]bool

// addLabels takes words in, each in the spelling that labels have: lower case, and a "-" for what
// they cannot have.
func (l labelSet) addLabels(words ...string) {
	for _, word := range words {
		word = strings.Map(func(r rune) rune {
			if job.IsLabel(string(r)) {
				return r
			}
			return '-'
		}, strings.ToLower(strings.TrimSpace(word)))
		if word = word[:min(len(word), job.MaxLabel)]; word != "" {
			l[word] = true
		}
	}
}

// sorted lists them, as many as there may be; nil: there are none.
func (l labelSet) sorted() []string {
	all := slices.Sorted(maps.Keys(l))
	return all[:min(len(all), job.MaxLabels)]
}

// A cpuInfoFields is what /proc/cpuinfo says of one CPU, by name.
type cpuInfoFields map[string]string

// readCPUInfo reads /proc/cpuinfo, by the number of the CPU. What stands before the first or behind
// the last of them belongs to all, under -1: "Hardware" of ARM, "clock" of some POWER.
func readCPUInfo(root fs.FS) map[int]cpuInfoFields {
	text, _ := fs.ReadFile(root, "proc/cpuinfo")
	all := map[int]cpuInfoFields{-1: make(cpuInfoFields)}
	here := all[-1]
	for line := range strings.Lines(string(text)) {
		name, value, said := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch cpu, numbered := parseDecimal(value, 0); {
		case strings.TrimSpace(line) == "":
			here = all[-1]
		case said && name == "processor" && numbered:
			here = make(cpuInfoFields)
			all[cpu] = here
		case said && here[name] == "":
			here[name] = value
		}
	}
	return all
}

// cpuModel is VENDOR-FAMILY-MODEL, or arm-IMPLEMENTER-PART, of the first CPU that says so;
// empty: none does.
func cpuModel(info map[int]cpuInfoFields) string {
	for _, cpu := range slices.Sorted(maps.Keys(info)) {
		text, found := info[cpu], make(labelSet)
		switch {
		case text["vendor_id"] != "" && text["cpu family"] != "" && text["model"] != "":
			found.addLabels(text["vendor_id"] + "-" + text["cpu family"] + "-" + text["model"])
		case text["CPU implementer"] != "" && text["CPU part"] != "":
			found.addLabels("arm-" + text["CPU implementer"] + "-" + text["CPU part"])
		}
		if len(found) > 0 {
			return found.sorted()[0]
		}
	}
	return ""
}
