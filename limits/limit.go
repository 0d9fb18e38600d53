/*
Package limits parses resource limits for a job, a host or a rank in the form NAME=VALUE, as in batch systems.

	"vmem=30mb,walltime=1:30:00"  --Parse-->    Map      by name, in bytes, ns or a count
	option, variable, cluster file  --Tighten-->  the smallest value of each, and its origin
	usage above a limit           --Excess-->   text for users, and text as batch systems print it

The package knows nothing about jobs and enforces no limits.
*/
package limits

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Resource is the name of a resource limit, such as vmem.
type Resource string

// These are the names of the resource limits (rule RM-55).
const (
	WallTime Resource = "walltime" // of the job
	CPUTime  Resource = "cput"     // of the job, like Mem and VMem
	Mem      Resource = "mem"
	VMem     Resource = "vmem"
	HostMem  Resource = "hmem" // of each host, like HostVMem
	HostVMem Resource = "hvmem"
	RankMem  Resource = "pmem"  // of each rank
	RankVMem Resource = "pvmem" // of each process, enforced by the kernel, like all that follow
	RankTime Resource = "pcput"
	File     Resource = "file"
	Core     Resource = "core"
	Stack    Resource = "stack"
	NoFile   Resource = "nofile"
	MemLock  Resource = "memlock"
	NProc    Resource = "nproc"
)

// A unit is the unit of a limit's value, such as bytes or time.
type unit int

const (
	sizeUnit unit = iota + 1
	timeUnit
	countUnit
)

// resourceProperties holds the properties of a limit.
type resourceProperties struct {
	unit           unit
	sampled        bool // enforced by sampling processes
	kernel         bool // enforced by the kernel, in each process
	mayBeUnlimited bool // "unlimited" is a valid value
	allowedPerHost bool // a host's administrator may set it, because the host alone can measure it
}

// propertiesOf lists the properties of each limit. Each sampled limit must also be compared with the usage in package
// feature/usage, and each kernel limit needs a row in rlimitResources of helper/rank. Tests check this.
var propertiesOf = map[Resource]resourceProperties{
	WallTime: {unit: timeUnit, allowedPerHost: true},
	CPUTime:  {unit: timeUnit, sampled: true},
	Mem:      {unit: sizeUnit, sampled: true},
	VMem:     {unit: sizeUnit, sampled: true},
	HostMem:  {unit: sizeUnit, sampled: true, allowedPerHost: true},
	HostVMem: {unit: sizeUnit, sampled: true, allowedPerHost: true},
	RankMem:  {unit: sizeUnit, sampled: true, allowedPerHost: true},
	RankVMem: {unit: sizeUnit, kernel: true},
	RankTime: {unit: timeUnit, kernel: true},
	File:     {unit: sizeUnit, kernel: true, mayBeUnlimited: true},
	Core:     {unit: sizeUnit, kernel: true, mayBeUnlimited: true},
	Stack:    {unit: sizeUnit, kernel: true, mayBeUnlimited: true},
	NoFile:   {unit: countUnit, kernel: true, mayBeUnlimited: true},
	MemLock:  {unit: sizeUnit, kernel: true, mayBeUnlimited: true},
	NProc:    {unit: countUnit, kernel: true, mayBeUnlimited: true},
}

// All returns the names of all resource limits, sorted.
func All() []Resource { return slices.Sorted(maps.Keys(propertiesOf)) }

// IsKnown reports whether a limit with this name exists.
func (n Resource) IsKnown() bool { return propertiesOf[n].unit != 0 }

// IsSampled reports whether mpiexec enforces the limit by sampling the usage of processes.
func (n Resource) IsSampled() bool { return propertiesOf[n].sampled }

// IsKernelLimit reports whether the kernel enforces the limit in each process.
func (n Resource) IsKernelLimit() bool { return propertiesOf[n].kernel }

// IsHostLimit reports whether the administrator of a host may set the limit for that host. The kernel of the host must
// enforce the limit, or the helper on the host must be able to measure the usage. A limit of the whole job is not a
// host limit, because one host knows only a part of the job.
func (n Resource) IsHostLimit() bool { return propertiesOf[n].allowedPerHost || propertiesOf[n].kernel }

// Matching calls match with the name of each limit, and returns the limits for which match returns true.
func (b Map) Matching(match func(Resource) bool) Map {
	matching := make(Map)
	for name, value := range b {
		if match(name) {
			matching[name] = value
		}
	}
	return matching
}

// Unlimited is the value of a limit that is "unlimited". maxValue is the largest value of any other limit.
const (
	Unlimited = 1 << 61
	maxValue  = 1 << 60
)

// A Map holds the values of limits by name. A value is a size in bytes, a time in ns, or a count. A resource whose
// name is not in the Map is not limited.
type Map map[Resource]int64

// AnyMatching calls match with the names of the limits, and reports whether match returns true for at least one of
// them.
func (b Map) AnyMatching(match func(Resource) bool) bool {
	for name := range b {
		if match(name) {
			return true
		}
	}
	return false
}

// Names returns the names of the limits, sorted.
func (b Map) Names() []Resource { return slices.Sorted(maps.Keys(b)) }

// Time returns the value of a time limit, or 0 if there is no such limit.
func (b Map) Time(name Resource) time.Duration { return time.Duration(b[name]) }

// Numbers returns the values of the limits. A value is a number of bytes or seconds, a count, or the string
// "unlimited".
func (b Map) Numbers() map[Resource]any {
	numbers := make(map[Resource]any, len(b))
	for name, value := range b {
		switch {
		case value == Unlimited:
			numbers[name] = "unlimited"
		case propertiesOf[name].unit == timeUnit:
			numbers[name] = time.Duration(value).Seconds()
		default:
			numbers[name] = value
		}
	}
	return numbers
}

// Minimum returns a Map with all limits of the given Maps. Each limit has its smallest value (rule RM-55).
func Minimum(maps ...Map) Map {
	strictest := make(Map)
	for _, bounds := range maps {
		for name, value := range bounds {
			if other, known := strictest[name]; !known || value < other {
				strictest[name] = value
			}
		}
	}
	return strictest
}

// Origins says, for each limit, which option or file has set it.
type Origins map[Resource]string

// Tighten adds the limits in added to limits. If a limit is in both, it keeps the smaller value. It records
// origin as the origin of each limit that it sets.
func Tighten(limits Map, origins Origins, added Map, origin string) {
	for name, value := range added {
		if other, known := limits[name]; !known || value < other {
			limits[name], origins[name] = value, origin
		}
	}
}

// Parse parses comma-separated items of the form NAME=VALUE. If a name occurs several times, the smallest value
// applies.
func Parse(list string) (Map, error) {
	bounds := make(Map)
	for item := range strings.SplitSeq(list, ",") {
		name, text, ok := strings.Cut(item, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=VALUE; an example is mem=2gb", item)
		}
		value, err := Value(Resource(name), text)
		if err != nil {
			return nil, err
		}
		bounds = Minimum(bounds, Map{Resource(name): value})
	}
	return bounds, nil
}

// Value parses the value of a limit and returns it in bytes, in ns, or as a count.
func Value(name Resource, text string) (value int64, err error) {
	p := propertiesOf[name]
	text = strings.ToLower(strings.TrimSpace(text))
	switch {
	case p.unit == 0:
		return 0, fmt.Errorf("unknown limit %q; allowed: %s", string(name), allNames())
	case text == "unlimited" && p.mayBeUnlimited:
		return Unlimited, nil
	}
	ok, want := false, ""
	switch p.unit {
	case sizeUnit:
		value, ok = parseBytes(text)
		want = `write a size such as "512mb", "2g" or "1048576"`
	case timeUnit:
		value, ok = parseTime(text)
		want = `write a time such as "90", "30m" or "1:30:00"`
	case countUnit:
		value, err = strconv.ParseInt(text, 10, 64)
		ok, want = err == nil && value >= 0 && value <= maxValue && text[0] != '+', "write a number"
	}
	if p.mayBeUnlimited {
		want += `, or "unlimited"`
	}
	if !ok {
		return 0, fmt.Errorf("%s: the value %q is not valid; %s", name, text, want)
	}
	return value, nil
}

func allNames() string {
	var names []string
	for _, name := range All() {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// parseBytes parses a size. The units b, k, m, g and t, as in kb, are powers of 1024 bytes. The units with a w, as in
// kw, are powers of 1024 words of eight bytes. It returns false if text is not a size, or if the size is above 2^60.
func parseBytes(text string) (int64, bool) {
	number := strings.TrimRight(text, "bwkmgt")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || number[0] < '0' || number[0] > '9' {
		return 0, false
	}
	factors := map[string]int64{"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "t": 1 << 40, "tb": 1 << 40,
		"w": 8, "kw": 8 << 10, "mw": 8 << 20, "gw": 8 << 30}
	factor, known := factors[text[len(number):]]
	if !known || n > maxValue/factor {
		return 0, false
	}
	return n * factor, true
}

// maxTime is the maximum time that is accepted, ten years. With this limit, sums of times do not overflow.
const maxTime = 10 * 365 * 24 * time.Hour

// parseTime parses a time in the form [[H:]M:]S[.D], or as numbers with the units d, h, m and s. It returns false if
// text is not such a time, or if the time is 0 or longer than maxTime.
func parseTime(text string) (int64, bool) {
	seconds, ok := 0.0, false
	if strings.ContainsAny(text, "dhms") {
		seconds, ok = parseUnitTime(text)
	} else {
		seconds, ok = parseColonTime(text)
	}
	if !ok || seconds <= 0 || seconds > maxTime.Seconds() {
		return 0, false
	}
	return int64(math.Ceil(seconds * float64(time.Second))), true
}

// parseColonTime parses hours, minutes and seconds that are separated by colons. Only the seconds may have
// decimals.
func parseColonTime(text string) (seconds float64, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return 0, false
	}
	for i, part := range parts {
		digits := part
		if i == len(parts)-1 {
			whole, decimals, dot := strings.Cut(part, ".")
			if digits = whole + decimals; whole == "" || dot && decimals == "" {
				return 0, false
			}
		}
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || strings.Trim(digits, "0123456789") != "" {
			return 0, false
		}
		seconds = 60*seconds + n
	}
	return seconds, true
}

// parseUnitTime parses a sequence of whole numbers with the units d, h, m and s.
func parseUnitTime(text string) (seconds float64, ok bool) {
	units := map[byte]float64{'d': 86400, 'h': 3600, 'm': 60, 's': 1}
	for text != "" {
		end := strings.IndexAny(text, "dhms")
		if end < 1 || strings.Trim(text[:end], "0123456789") != "" {
			return 0, false
		}
		n, err := strconv.ParseFloat(text[:end], 64)
		if err != nil {
			return 0, false
		}
		seconds += n * units[text[end]]
		text = text[end+1:]
	}
	return seconds, true
}

// An Excess describes a resource usage that exceeds a limit.
type Excess struct {
	Name          Resource
	Used, Allowed int64
	Where         string // empty, or for example " on host n1"
	From          string // the option or file that set the limit; empty: unknown
}

// BatchLine describes the excess in the format of batch systems (rule RM-56). Sizes are in bytes. Times are in seconds,
// rounded up.
func (e Excess) BatchLine() string {
	used, allowed := e.Used, e.Allowed
	if propertiesOf[e.Name].unit == timeUnit {
		used, allowed = ceilSeconds(used), ceilSeconds(allowed)
	}
	return fmt.Sprintf("%s %d exceeded limit %d%s", nameOnHost(e.Name), used, allowed, e.Where)
}

// formatSeconds formats a time in seconds. It rounds up to a thousandth, so that a value above a limit is also
// printed as larger than the limit.
func formatSeconds(ns int64) string {
	const unit = int64(time.Millisecond)
	return strconv.FormatFloat(float64((ns+unit-1)/unit)/1000, 'f', -1, 64) + " s"
}

// String describes the excess for users, such as "mem: 2.1 GiB used on host n1, 2 GiB allowed by --limit".
func (e Excess) String() string {
	used, allowed := Amount(e.Name, e.Used), Amount(e.Name, e.Allowed)
	if propertiesOf[e.Name].unit == timeUnit {
		used, allowed = formatSeconds(e.Used), formatSeconds(e.Allowed)
	} else if used == allowed { // equal after rounding
		used, allowed = fmt.Sprintf("%d bytes", e.Used), fmt.Sprintf("%d bytes", e.Allowed)
	}
	text := fmt.Sprintf("%s: %s used%s, %s allowed", nameOnHost(e.Name), used, e.Where, allowed)
	if e.From != "" {
		text += " by " + e.From
	}
	return text
}

// Amount formats the value of a limit with its unit.
func Amount(name Resource, value int64) string {
	switch m := propertiesOf[name].unit; {
	case value == Unlimited:
		return "unlimited"
	case m == timeUnit:
		return fmt.Sprintf("%d s", ceilSeconds(value))
	case m == countUnit:
		return strconv.FormatInt(value, 10)
	}
	for _, unit := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if value >= unit.size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(value)/float64(unit.size), 'f', 1, 64), ".0") + " " + unit.name
		}
	}
	return fmt.Sprintf("%d bytes", value)
}

// nameOnHost returns the name of a limit without the initial h of a host limit. It is for texts that already name
// the host.
func nameOnHost(name Resource) Resource {
	switch name {
	case HostMem:
		return Mem
	case HostVMem:
		return VMem
	}
	return name
}

func ceilSeconds(ns int64) int64 {
	seconds := ns / int64(time.Second)
	if ns%int64(time.Second) > 0 {
		seconds++
	}
	return seconds
}
