package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/text"
	"remshell/usererr"
)

// These constants limit what mpiexec accepts in host lists and counts. They come from environment variables, which any
// program may have set.
const (
	maxHosts  = 65536   // of an allocation
	maxName   = 253     // characters of a host's name
	maxNumber = 1 << 40 // seconds since 1970 must fit
	maxCount  = 1 << 20 // tasks or CPUs of one host
)

// number parses a decimal number. ok is false if text is not a number or the number is too large.
func number(text string) (n int, ok bool) {
	if text == "" || len(text) > 18 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= maxNumber
}

// slotCount parses a number of tasks or CPUs from 0 to maxCount.
func slotCount(text string) (int, error) {
	n, ok := number(text)
	if !ok || n > maxCount {
		return 0, fmt.Errorf("%s is not a slot count", quoted(text))
	}
	return n, nil
}

// quoted returns a word in quotes for a message. It shortens a very long word.
func quoted(text string) string {
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return strconv.Quote(text)
}

// hostName returns an error if name is not a valid host name.
func hostName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a host name is missing")
	case len(name) > maxName:
		return fmt.Errorf("%s is too long for a host name", quoted(name))
	case name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool { return !hostLetter(r) }):
		return fmt.Errorf("%s is not a host name", quoted(name))
	}
	return nil
}

func hostLetter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
}

var errTooMany = fmt.Errorf("the list has more than %d hosts", maxHosts)

// expandHostlist expands a folded host list in Slurm's syntax, which Flux also uses (rm-integration.md
// 2.2).
func expandHostlist(text string) (names []string, err error) {
	for _, item := range items(text) {
		more, err := expand(item, maxHosts-len(names))
		for i := 0; i < len(more) && err == nil; i++ {
			err = hostName(more[i])
		}
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// items splits a list at commas, blanks and line ends that are outside brackets. Several separators in a row count
// as one. If a bracket is not closed, the rest of the text belongs to the same item.
func items(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth <= 0 && strings.ContainsRune(", \t\r\n", r)
	})
}

// expand converts one item of a folded host list, such as n[1-3], to a list of names. It returns an error if there
// would be more than limit names. The number in the first bracket varies slowest.
func expand(item string, limit int) ([]string, error) {
	names := []string{""}
	for rest := item; rest != ""; {
		at := strings.IndexByte(rest, '[')
		plain := rest
		if at >= 0 {
			plain = rest[:at]
		}
		if len(plain) > maxName {
			return nil, hostName(item)
		}
		for i := range names {
			names[i] += plain
		}
		if at < 0 {
			break
		}
		inside, after, closed := strings.Cut(rest[at+1:], "]")
		switch {
		case strings.ContainsRune(inside, '['):
			return nil, fmt.Errorf(`nested "["`)
		case !closed:
			return nil, fmt.Errorf(`missing "]"`)
		}
		choices, err := ranges(inside, limit/len(names))
		if err != nil {
			return nil, err
		}
		if names = text.Product(names, choices); len(names[0]) > maxName {
			return nil, hostName(names[0])
		}
		rest = after
	}
	if len(names) > limit {
		return nil, errTooMany
	}
	return names, nil
}

// ranges expands the text between brackets, such as "0-2,05". Each number is padded with zeros to the width of the
// first number of its range. It returns an error if there are more than limit numbers.
func ranges(text string, limit int) (all []string, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, width, ok := span(part)
		switch {
		case !ok:
			return nil, fmt.Errorf("%s is not a range of numbers", quoted(part))
		case last < first:
			return nil, fmt.Errorf("reversed range %s", quoted(part))
		case last-first >= limit-len(all):
			return nil, errTooMany
		}
		for n := first; n <= last; n++ {
			all = append(all, fmt.Sprintf("%0*d", width, n))
		}
	}
	return all, nil
}

// span parses one number or a range, such as "5" or "05-12". It returns the first number, the last number, and the
// number of digits of the first number in the text. ok is false if part has another form.
func span(part string) (first, last, width int, ok bool) {
	low, high, isRange := strings.Cut(part, "-")
	if !isRange {
		high = low
	}
	first, ok1 := number(low)
	last, ok2 := number(high)
	return first, last, len(low), ok1 && ok2
}

// setSize returns how many numbers an ascending set such as "0-3,8" has. It does not expand the set. ok is false if
// text is not such a set.
func setSize(text string) (size int, ok bool) {
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		first, last, _, ok := span(part)
		if !ok || first < next || last < first || last >= maxCount {
			return 0, false
		}
		size, next = size+last-first+1, last+1
	}
	return size, true
}

// isNumberList reports whether text is a list of numbers and ranges, such as "0,2-3", in any order.
func isNumberList(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		if first, last, _, ok := span(part); !ok || last < first || last >= maxCount {
			return false
		}
	}
	return true
}

// nth returns the number at index i, counted from 0, of the set in text. setSize must accept text.
func nth(text string, i int) int {
	for part := range strings.SplitSeq(text, ",") {
		first, last, _, _ := span(part)
		if i <= last-first {
			return first + i
		}
		i -= last - first + 1
	}
	return -1
}

// counts expands Slurm's short form of a list of numbers: "4(x2),3" means 4, 4, 3. The list must have one number for
// each host, or consist of a single plain number, which applies to all hosts.
func counts(variable, text string, hosts int) ([]int, error) {
	var all []int
	entries := 0 // all, kept or not
	for item := range strings.SplitSeq(text, ",") {
		item = strings.Trim(item, " \t\r\n")
		digits, repeat, repeated := strings.Cut(item, "(x")
		times := 1
		if repeated {
			inner, closed := strings.CutSuffix(repeat, ")")
			n, ok := number(inner)
			if times = n; !closed || !ok || n < 1 {
				return nil, fmt.Errorf("%s: %s is not a count such as 2 or 2(x3)", variable, quoted(item))
			}
		}
		n, ok := number(digits)
		if !ok || n > maxCount {
			return nil, fmt.Errorf("%s: %s is not a count such as 2 or 2(x3)", variable, quoted(item))
		}
		if entries == 0 && !repeated && !strings.Contains(text, ",") {
			times = hosts
		}
		entries += times
		all = append(all, slices.Repeat([]int{n}, min(times, max(0, hosts-len(all))))...)
	}
	if entries != hosts {
		return nil, fmt.Errorf("%s has %d entries, but the number of hosts is %d", variable, entries, hosts)
	}
	return all, nil
}

// counts returns one number for each host, as the environment variable lists them. If it is not set, counts returns
// nil.
func (w Inputs) counts(variable string, hosts int) ([]int, error) {
	if variable == "" || !w.set(variable) {
		return nil, nil
	}
	all, err := counts(variable, w.value(variable), hosts)
	if err != nil {
		return nil, &usererr.Error{Text: err.Error()}
	}
	return all, nil
}

// listError returns an error which says that the host list in an environment variable cannot be parsed, because of err.
func listError(variable string, err error) error {
	return &usererr.Error{Text: fmt.Sprintf("%s: %v", variable, err)}
}

// countWarnings returns a warning if the number in a variable differs from slots, the number of slots in the host
// list. Otherwise it returns nil. source says where the host list comes from.
func (w Inputs) countWarnings(variable, source string, slots int) []string {
	if n := w.count(variable); n > 0 && n != slots {
		return []string{fmt.Sprintf("warning: %s is %d but %s lists %s; using %d", variable, n, source, text.Count(slots, "slot"), slots)}
	}
	return nil
}
