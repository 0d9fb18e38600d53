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

// maxMHz is a speed that no CPU reaches. A larger value in a file is treated as wrong.
const maxMHz = 1_000_000

// cpuSpeed returns the speed of the slowest CPU in MHz (PROCSPEED in which-hosts.md 2.1). It tries rules 2 to 6 of that
// page in order, and returns the first speed that it finds. usedRule is the rule that gave the speed. Rule 1 is not
// tried, because it is about the cluster file. If no rule gives a speed, it returns 0.
func cpuSpeed(root fs.FS, cpus []int, info map[int]cpuInfoFields) (mhz int, usedRule job.SpeedQuality) {
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
				break // all CPUs have the same files, so no CPU has this one
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

// These are the units of files that contain the speed of a CPU. A number in such a unit is divided by 10 to the power
// of the constant to get MHz.
const (
	wholeMHz = 0
	kHz      = 3
)

// fileMHz reads a speed from the file with the given name in a CPU's directory. places is the unit of the
// file: wholeMHz or kHz. A speed in kHz is rounded to the nearest MHz. It returns 0 if the file does not
// exist or contains no speed.
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

// modelNameMHz returns the speed at the end of a processor's name, such as "... CPU E5-2650 v4 @ 2.20GHz", in
// MHz. It returns 0 if there is none.
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

// measuredMHz returns the largest speed in MHz that the kernel has measured for one of cpus, rounded to a multiple of
// 100. It returns 0 if there is none.
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

// parseDecimal parses a decimal number and multiplies it by 10^places. For example, "2.40" with 3 places gives 2400.
// Further decimal places are ignored. It returns false if text is not such a number.
func parseDecimal(text string, places int) (int, bool) {
	whole, part, _ := strings.Cut(text, ".")
	if strings.Trim(whole+part, "0123456789") != "" || whole == "" || len(whole) > 9 {
		return 0, false
	}
	part += strings.Repeat("0", places)
	n, err := strconv.Atoi(whole + part[:places])
	return n, err == nil
}
