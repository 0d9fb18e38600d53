package psi

import (
	"strconv"
	"strings"
)

// readCPUMap reads the user's CPU map, which specifies the order in which cores are used (placement.md 7.3).
func (c *Settings) readCPUMap(in Input) error {
	c.CPUMapOrigin = "--cpu-map"
	value := in.Flags.CPUMap
	if value == nil {
		c.CPUMapOrigin = "__PSI_CPUMAP"
		if text, defined := in.Env(c.CPUMapOrigin); defined {
			value = &text
		}
	}
	if value == nil {
		c.CPUMapOrigin = ""
		return nil
	}
	numbers, bad, ok := ParseCPUMap(trimBlanks(*value))
	if !ok {
		return &Error{Code: "bad-cpumap", Source: c.CPUMapOrigin, Token: bad, Problem: "is not a core or a range of cores",
			Allowed: []string{"N", "FIRST-LAST, ascending or descending", "numbers from 0 to 65535 in decimal, or with 0x in hexadecimal, or with 0 in octal"}}
	}
	c.CPUMap = numbers
	return nil
}

// maxCPUMap is the maximum number of items in a CPU map. This is enough for 65,536 cores, each several times.
const maxCPUMap = 1 << 20

// ParseCPUMap parses a CPU map such as "0-3,0x8,7-4". If the text is malformed, ok is false and bad is the first
// malformed item as the user wrote it.
func ParseCPUMap(text string) (numbers []int, bad string, ok bool) {
	for item := range strings.SplitSeq(text, ",") {
		if trimBlanks(item) == "" {
			continue
		}
		low, high, isRange := strings.Cut(item, "-")
		first, ok := parseCNumber(low)
		last := first
		if ok && isRange {
			last, ok = parseCNumber(high)
		}
		if !ok || len(numbers) > maxCPUMap {
			return nil, item, false
		}
		step := 1
		if last < first {
			step = -1
		}
		for n := first; n != last+step; n += step {
			numbers = append(numbers, n)
		}
	}
	return numbers, "", true
}

// parseCNumber parses a number as C's strtol with base 0 does. Blanks and a plus sign may precede the number. The
// number's prefix determines its base. If the number is invalid or other text follows it, parseCNumber returns false.
func parseCNumber(text string) (int, bool) {
	text = strings.TrimPrefix(strings.TrimLeft(text, blanks), "+")
	base := 10
	if hex, is := cutHex(text); is {
		text, base = hex, 16
	} else if len(text) > 1 && text[0] == '0' {
		base = 8
	}
	if text == "" || strings.ContainsAny(text, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(text, base, 16)
	return int(n), err == nil
}

func cutHex(text string) (string, bool) {
	if len(text) > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return text[2:], true
	}
	return text, false
}
