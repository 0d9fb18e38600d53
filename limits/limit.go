/*
Package limits reads what a job, a host or a rank may use at most: NAME=VALUE, as batch systems
have it.

	"vmem=30mb,walltime=1:30:00"  --Parse-->  Bounds   by name, in bytes, ns or a count
	line, variable, cluster file  --Strictest-->       the smallest of each counts, and who said it
	what was used                 --Excess-->          for people, and in the words of batch systems

It knows no job and enforces nothing.
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

// A Resource is what may be limited.
type Resource string

// The names (RM-55).
const (
	WallTime Resource = "walltime" // of the job
	CPUTime  Resource = "cput"     // of the job, as all that follow to VMem
	Mem      Resource = "mem"
	VMem     Resource = "vmem"
	HostMem  Resource = "hmem" // of each host
	HostVMem Resource = "hvmem"
	RankMem  Resource = "pmem"  // of each rank
	RankVMem Resource = "pvmem" // of each process, as all that follow: the kernel's
	RankTime Resource = "pcput"
	File     Resource = "file"
	Core     Resource = "core"
	Stack    Resource = "stack"
	NoFile   Resource = "nofile"
	MemLock  Resource = "memlock"
	NProc    Resource = "nproc"
)

// A unit is what a value is.
type unit int

const (
	sizeUnit unit = iota + 1
	timeUnit
	countUnit
)

// A resourceTraits is what is particular to what is limited.
type resourceTraits struct {
	unit           unit
	sampled        bool // by looking at processes now and then
	kernel         bool // by the kernel, in each process
	mayBeUnlimited bool // may be said
	allowedPerHost bool // an administrator of a host may say it there: it is of what the host alone knows
}

// traitsOf has a row for each; what is sampled also has a line in launch/supervise, what is the kernel's
// one in helper/rank, and tests see that none is forgotten.
var traitsOf = map[Resource]resourceTraits{
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

// All are those that there are, by name.
func All() []Resource { return slices.Sorted(maps.Keys(traitsOf)) }

// IsKnown reports whether there is such a limit.
func (n Resource) IsKnown() bool { return traitsOf[n].unit != 0 }

// IsSampled reports whether processes are looked at to enforce it.
func (n Resource) IsSampled() bool { return traitsOf[n].sampled }

// IsKernelLimit reports whether the kernel enforces it, in each process.
func (n Resource) IsKernelLimit() bool { return traitsOf[n].kernel }

// IsHostLimit reports whether a host's administrator may limit it there: what the kernel enforces, and what the
// helper there can know. Of what is a job's, one host knows a part.
func (n Resource) IsHostLimit() bool { return traitsOf[n].allowedPerHost || traitsOf[n].kernel }

// Matching is the limits that are such.
func (b Map) Matching(such func(Resource) bool) Map {
	some := make(Map)
	for name, value := range b {
		if such(name) {
			some[name] = value
		}
	}
	return some
}

// Unlimited is a value of who says that there shall be no limit; most is the largest of all others.
const (
	Unlimited = 1 << 61
	maxValue  = 1 << 60
)

// Map are limits: sizes in bytes, times in ns. What is not there is not limited.
type Map map[Resource]int64

// AnyMatching reports whether one of the limits is such a one.
func (b Map) AnyMatching(has func(Resource) bool) bool {
	for name := range b {
		if has(name) {
			return true
		}
	}
	return false
}

// Names are those of the limits, in their order.
func (b Map) Names() []Resource { return slices.Sorted(maps.Keys(b)) }

// Time is a limit of time; 0: there is none.
func (b Map) Time(name Resource) time.Duration { return time.Duration(b[name]) }

// Numbers are the limits as numbers: bytes, seconds, counts; or "unlimited".
func (b Map) Numbers() map[Resource]any {
	figures := make(map[Resource]any, len(b))
	for name, value := range b {
		switch {
		case value == Unlimited:
			figures[name] = "unlimited"
		case traitsOf[name].unit == timeUnit:
			figures[name] = time.Duration(value).Seconds()
		default:
			figures[name] = value
		}
	}
	return figures
}

// Minimum takes of each limit the smallest value (RM-55).
func Minimum(all ...Map) Map {
	strictest := make(Map)
	for _, bounds := range all {
		for name, value := range bounds {
			if other, twice := strictest[name]; !twice || value < other {
				strictest[name] = value
			}
		}
	}
	return strictest
}

// Origins says who has set each limit.
type Origins map[Resource]string

// Tighten takes those of more into bounds that are stricter than what is there, and notes who has set them.
func Tighten(bounds Map, origins Origins, more Map, from string) {
	for name, value := range more {
		if other, known := bounds[name]; !known || value < other {
			bounds[name], origins[name] = value, from
		}
	}
}

// Parse reads a list of NAME=VALUE with commas between. Of a name that is there twice the
// smaller value counts.
func Parse(list string) (Map, error) {
	bounds := make(Map)
	for item := range strings.SplitSeq(list, ",") {
		name, text, given := strings.Cut(item, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !given {
			return nil, fmt.Errorf("%q is not NAME=VALUE, as mem=2gb", item)
		}
		value, err := Value(Resource(name), text)
		if err != nil {
			return nil, err
		}
		bounds = Minimum(bounds, Map{Resource(name): value})
	}
	return bounds, nil
}

// Value reads the value of a limit.
func Value(name Resource, text string) (value int64, err error) {
	p := traitsOf[name]
	text = strings.ToLower(strings.TrimSpace(text))
	switch {
	case p.unit == 0:
		return 0, fmt.Errorf("unknown limit %q; there are: %s", string(name), allNames())
	case text == "unlimited" && p.mayBeUnlimited:
		return Unlimited, nil
	}
	ok, what := false, ""
	switch p.unit {
	case sizeUnit:
		value, ok = parseBytes(text)
		what = "a size, as 512mb, 2g or 1048576"
	case timeUnit:
		value, ok = parseTime(text)
		what = "a time, as 90, 30m or 1:30:00"
	case countUnit:
		value, err = strconv.ParseInt(text, 10, 64)
		ok, what = err == nil && value >= 0 && value <= maxValue && text[0] != '+', "a number"
	}
	if p.mayBeUnlimited {
		what += ", or unlimited"
	}
	if !ok {
		return 0, fmt.Errorf("%s: %q is not %s", name, text, what)
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

// parseBytes reads a size: a number, and b, k, m, g, t for powers of 1024, of bytes (kb) or of words of
// eight bytes (w, kw). No size is larger than 2^60.
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

// maxTime is the longest time, so that sums of times are times: ten years.
const maxTime = 10 * 365 * 24 * time.Hour

// parseTime reads [[H:]M:]S[.D], or numbers with the units d, h, m, s. No time is none at all.
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

// parseColonTime reads hours, minutes and seconds; only seconds may have decimals.
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

// parseUnitTime reads whole numbers with units.
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

// An Excess says that something has used more than a limit.
type Excess struct {
	Name          Resource
	Used, Allowed int64
	Where         string // empty, or " on host NAME"
	From          string // who has set the limit: an option, a file; empty: nobody knows
}

// BatchLine tells it in the words of a batch system (RM-56): sizes in bytes, times in seconds rounded up.
func (e Excess) BatchLine() string {
	used, allowed := e.Used, e.Allowed
	if traitsOf[e.Name].unit == timeUnit {
		used, allowed = ceilSeconds(used), ceilSeconds(allowed)
	}
	return fmt.Sprintf("%s %d exceeded limit %d%s", nameOnHost(e.Name), used, allowed, e.Where)
}

// formatSeconds is a time in seconds, rounded up to a thousandth: what exceeds a limit reads as more than that.
func formatSeconds(ns int64) string {
	const unit = int64(time.Millisecond)
	return strconv.FormatFloat(float64((ns+unit-1)/unit)/1000, 'f', -1, 64) + " s"
}

// String tells it to people: "mem: 2.1 GiB used on host n1, 2 GiB allowed by --limit".
func (e Excess) String() string {
	used, allowed := Amount(e.Name, e.Used), Amount(e.Name, e.Allowed)
	if traitsOf[e.Name].unit == timeUnit {
		used, allowed = formatSeconds(e.Used), formatSeconds(e.Allowed)
	} else if used == allowed { // by rounding
		used, allowed = fmt.Sprintf("%d bytes", e.Used), fmt.Sprintf("%d bytes", e.Allowed)
	}
	text := fmt.Sprintf("%s: %s used%s, %s allowed", nameOnHost(e.Name), used, e.Where, allowed)
	if e.From != "" {
		text += " by " + e.From
	}
	return text
}

// Amount is a value with its unit.
func Amount(name Resource, value int64) string {
	switch m := traitsOf[name].unit; {
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

// nameOnHost is what is limited: of a host it is told by its name that it is a host's.
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
