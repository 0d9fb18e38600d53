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

// Attributes returns the attributes of this node from which node sets are built (which-hosts.md 2.1). root is "/", and
// environ is the helper's own environment. It is called only if a job needs attributes, because opening /proc/cpuinfo
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

// gpuModels returns the models of GPUs as labels, without duplicates and in ascending order.
func gpuModels(root fs.FS, gpus []gpu.GPU) []string {
	found := make(labelSet)
	for _, g := range gpus {
		found.addLabels(gpu.Model(root, g))
	}
	return found.sorted()
}

// A labelSet is a set of node labels, such as models of GPUs.
type labelSet map[string]bool

// addLabels converts words to labels and adds them: it changes capital letters to lowercase, and replaces characters
// that are not allowed with "-".
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

// sorted returns the labels in ascending order, at most job.MaxLabels. It returns nil if there are none.
func (l labelSet) sorted() []string {
	all := slices.Sorted(maps.Keys(l))
	return all[:min(len(all), job.MaxLabels)]
}

// A cpuInfoFields contains the fields that /proc/cpuinfo contains about one CPU, by name.
type cpuInfoFields map[string]string

// readCPUInfo returns the fields of /proc/cpuinfo by CPU number. Number -1 stands for fields that apply to all CPUs,
// such as "Hardware" on ARM and "clock" on some POWER machines. Such fields come before the first or after the last
// CPU.
func readCPUInfo(root fs.FS) map[int]cpuInfoFields {
	text, _ := fs.ReadFile(root, "proc/cpuinfo")
	all := map[int]cpuInfoFields{-1: make(cpuInfoFields)}
	current := all[-1]
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch cpu, numbered := parseDecimal(value, 0); {
		case strings.TrimSpace(line) == "":
			current = all[-1]
		case found && name == "processor" && numbered:
			current = make(cpuInfoFields)
			all[cpu] = current
		case found && current[name] == "":
			current[name] = value
		}
	}
	return all
}

// cpuModel returns the CPU model as VENDOR-FAMILY-MODEL or arm-IMPLEMENTER-PART. It uses the first CPU that
// has the necessary fields, and returns "" if there is none.
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
