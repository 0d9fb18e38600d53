package psi

import (
	"strconv"
	"strings"
)

// cpuMap reads the user's map (7.3).
func (c *Choice) cpuMap(in Input) error {
	c.MapFrom = "--cpu-map"
	value := in.Flags.Map
	if value == nil {
		c.MapFrom = "__PSI_CPUMAP"
		if text, defined := in.Env(c.MapFrom); defined {
			value = &text
		}
	}
	if value == nil {
		c.MapFrom = ""
		return nil
	}
	numbers, bad, ok := ParseMap(strip(*value))
	if !ok {
		return &Error{Code: "bad-cpumap", Source: c.MapFrom, Token: bad, What: "bad element",
			Allowed: []string{"N", "FIRST-LAST (ascending or descending)", "numbers 0-65535, decimal, 0x hexadecimal or 0 octal"}}
	}
	c.Map = numbers
	return nil
}

// maxMap bounds a map's length; 65,536 cores may each be named a few times.
const maxMap = 1 << 20

// ParseMap reads a CPU map such as "0-3,0x8,7-4". Without ok, bad is the item that is
// malformed, as it was written.
func ParseMap(text string) (numbers []int, bad string, ok bool) {
	for item := range strings.SplitSeq(text, ",") {
		if strip(item) == "" {
			continue
		}
		low, high, isRange := strings.Cut(item, "-")
		first, ok := core(low)
		last := first
		if ok && isRange {
			last, ok = core(high)
		}
		if !ok || len(numbers) > maxMap {
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

// core reads "n" of the grammar: blanks may stand before the number, none behind,
// and it may have a plus; C decides on the base.
func core(text string) (int, bool) {
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
