//go:build linux

package probe

import (
	"cmp"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"remshell/job"
)

// maxMHz is more than any CPU has.
const maxMHz = 1_000_000

// cpuSpeed is PROCSPEED of which-hosts.md 2.1 in MHz: the smallest value over the CPUs, by the first of
// its rules 2 to 6 that gives one; rule 1 is the cluster file's. 0: none gives one.
func cpuSpeed(root fs.FS, cpus []int, info map[int]cpuInfoFields) (mhz int, by job.SpeedQuality) {
	for _, rule := range []struct {
		quality job.SpeedQuality
		of      func(cpu int) (mhz int)
	}{
		{job.SpeedNominal, func(cpu int) int { return fileMHz(root, cpu, "cpufreq/base_frequency", kHz) }},
		{job.SpeedNominal, func(cpu int) int { return fileMHz(root, cpu, "acpi_cppc/nominal_freq", wholeMHz) }},
		{job.SpeedNominal, func(cpu int) int { return modelNameMHz(info[cpu]["model name"]) }},
		{job.SpeedTurbo, func(cpu int) int { return fileMHz(root, cpu, "cpufreq/cpuinfo_max_freq", kHz) }},
	} {
		least := 0
		for i, cpu := range cpus {
			n := rule.of(cpu)
			if i == 0 && n == 0 {
				break // the files of CPUs are alike: it is not there
			}
			if 0 < n && n <= maxMHz && (least == 0 || n < least) {
				least = n
			}
		}
		if least > 0 {
			return least, rule.quality
		}
	}
	if most := measuredMHz(cpus, info); most > 0 {
		return most, job.SpeedMeasured
	}
	return 0, ""
}

// Units of the files of a CPU, as decimal places between their number and MHz.
const (
	wholeMHz = 0
	kHz      = 3
)

// fileMHz is what a file of a CPU says, rounded half up to MHz; 0: there is no such file, or no speed in it.
func fileMHz(root fs.FS, cpu int, name string, places int) int {
	n, ok := parseDecimal(strings.TrimSpace(ReadLine(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/%s", cpu, name))), 0)
	if !ok {
		return 0
	}
	if places == kHz {
		return (n + 500) / 1000
	}
	return n
}

// modelNameMHz is the speed at the end of the name of a processor, "... CPU E5-2650 v4 @ 2.20GHz"; 0: there is none.
func modelNameMHz(name string) int {
	i := strings.LastIndex(name, "@")
	if i < 0 {
		return 0
	}
	number, is := strings.CutSuffix(strings.TrimSpace(name[i+1:]), "GHz")
	tenths, ok := parseDecimal(strings.TrimSpace(number), 4) // of a MHz
	if !is || !ok {
		return 0
	}
	return (tenths + 5) / 10
}

// measuredMHz is the largest speed at which the kernel saw one of these CPUs run, rounded half up to
// 100 MHz; 0: it tells none.
func measuredMHz(cpus []int, info map[int]cpuInfoFields) int {
	most := 0
	for _, cpu := range append([]int{-1}, cpus...) {
		text := cmp.Or(info[cpu]["cpu MHz"], strings.TrimSuffix(info[cpu]["clock"], "MHz"))
		if n, ok := parseDecimal(strings.TrimSpace(text), 3); ok { // kHz
			most = max(most, n)
		}
	}
	if rounded := (most + 50_000) / 100_000 * 100; rounded <= maxMHz {
		return rounded
	}
	return 0
}

// parseDecimal reads "2.40" as 2400 with three places; what has more of them is cut. Exact, unlike
// floating point: 2.675 GHz are 2675 MHz.
func parseDecimal(text string, places int) (int, bool) {
	whole, part, _ := strings.Cut(text, ".")
	if strings.Trim(whole+part, "0123456789") != "" || whole == "" || len(whole) > 9 {
		return 0, false
	}
	part += strings.Repeat("0", places)
	n, err := strconv.Atoi(whole + part[:places])
	return n, err == nil
}
