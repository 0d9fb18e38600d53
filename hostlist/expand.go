package hostlist

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"remshell/text"
)

// maxName is the maximum length of a host name in bytes (RFC 1035, section 2.3.4).
const maxName = 255

// expand returns the names to which the bracket expression at the bytes [start, end) expands:
//
//	node[01-16,20]-[a,b]    brackets contain numbers, ranges with an optional step (0-10/2), and words
//
// The first pair of brackets varies slowest. The numbers of a range have the same leading zeros as its first number (rule
// HOST-1).
func (c *cursor) expand(start, end int) ([]string, error) {
	if end == start {
		return nil, c.errorAt(start, end, "the host name is missing")
	}
	names := []string{""}
	for pos := start; pos < end; {
		if len(names[0]) > maxName {
			break
		}
		word := c.text[pos:end]
		open := strings.IndexByte(word, '[')
		if open != 0 {
			if open < 0 {
				open = len(word)
			}
			if open > maxName {
				return nil, c.errorAt(start, end, "the name is too long; the maximum is %d letters", maxName)
			}
			if at, bad := badLetter(word[:open]); bad != "" {
				return nil, c.errorAt(pos+at, pos+at+len(bad), "%q cannot be part of a host name", bad)
			}
			for i := range names {
				names[i] += word[:open]
			}
			pos += open
			continue
		}
		size := strings.IndexByte(word, ']')
		if size < 0 {
			return nil, c.errorAt(pos, end, "the bracket is not closed")
		}
		choices, err := c.expandGroup(pos+1, pos+size)
		if err != nil {
			return nil, err
		}
		if len(names)*len(choices) > maxEntry {
			return nil, c.errorAt(start, end, "the expression has more than %d names", maxEntry)
		}
		names = text.Product(names, choices)
		pos += size + 1
	}
	if names[0][0] == '-' {
		return nil, c.errorAt(start, end, "a host name cannot begin with a dash")
	}
	if len(names[len(names)-1]) > maxName {
		return nil, c.errorAt(start, end, "the name is too long; the maximum is %d letters", maxName)
	}
	return names, nil
}

// expandGroup returns the strings to which the contents of one pair of brackets, the bytes [start, limit), expand.
func (c *cursor) expandGroup(start, limit int) ([]string, error) {
	var all []string
	for start <= limit {
		item, _, _ := strings.Cut(c.text[start:limit], ",")
		end := start + len(item)
		choices, err := c.expandItem(start, end)
		if err != nil {
			return nil, err
		}
		if len(all)+len(choices) > maxEntry {
			return nil, c.errorAt(start, end, "the expression has more than %d names", maxEntry)
		}
		all = append(all, choices...)
		start = end + 1
	}
	return all, nil
}

// expandItem returns the strings to which one item between commas expands. An item is a number, a word, or a range with
// an optional step: 20, a, 0-10/2.
func (c *cursor) expandItem(start, end int) ([]string, error) {
	word := c.text[start:end]
	low, rest, isRange := strings.Cut(word, "-")
	if !isRange {
		if at, bad := badLetter(word); bad != "" {
			return nil, c.errorAt(start+at, start+at+len(bad), "%q cannot be part of a host name", bad)
		}
		if word == "" || len(word) > maxName {
			return nil, c.errorAt(start, end, "a number or word in the brackets is missing or too long")
		}
		return []string{word}, nil
	}
	high, stepWord, hasStep := strings.Cut(rest, "/")
	step := 1
	if hasStep {
		var err error
		if step, err = c.readNumber(end-len(stepWord), end, stepWord, "step", maxEntry); err != nil {
			return nil, err
		}
	}
	switch {
	case !allDigits(low) || !allDigits(high):
		return nil, c.errorAt(start, end, "%q is not a range of numbers", word)
	case high[0] == '0' && len(high) != len(low):
		return nil, c.errorAt(start, end, "the two ends of the range %q have different numbers of digits", word)
	}
	return c.expandRange(start, end, low, high, step)
}

// expandRange returns every step-th number from low to high, padded with zeros to the width of low. Errors refer to the
// bytes [start, end), which contain the range.
func (c *cursor) expandRange(start, end int, low, high string, step int) ([]string, error) {
	first, err1 := strconv.ParseInt(low, 10, 64)
	last, err2 := strconv.ParseInt(high, 10, 64)
	word := c.text[start:end]
	switch {
	case err1 != nil || err2 != nil:
		return nil, c.errorAt(start, end, "the numbers of %q are too large", word)
	case last < first:
		return nil, c.errorAt(start, end, "the range %q must begin with the smaller number", word)
	case (last-first)/int64(step) >= maxEntry:
		return nil, c.errorAt(start, end, "the range %q has more than %d numbers", word, maxEntry)
	}
	count := (last-first)/int64(step) + 1
	all := make([]string, 0, count)
	for i := range count {
		all = append(all, padNumber(first+i*int64(step), len(low)))
	}
	return all, nil
}

// padNumber formats n with at least width digits, padded with zeros.
func padNumber(n int64, width int) string {
	s := strconv.FormatInt(n, 10)
	if missing := width - len(s); missing > 0 {
		s = strings.Repeat("0", missing) + s
	}
	return s
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// badLetter returns the first character of s that is not allowed in a host name, and its position. It returns "" if all
// characters are allowed. The characters of DNS names, underscores and non-ASCII letters are allowed, since a name may
// be an alias in the user's ssh configuration. Other characters could have a meaning in a remote shell.
func badLetter(s string) (int, string) {
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9',
			r == '.', r == '-', r == '_', r > 0x7f && unicode.IsLetter(r):
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			return i, s[i : i+size]
		}
	}
	return 0, ""
}

// badName is like badLetter, but it checks a whole name without brackets. For a name that is empty, too long, or begins
// with a dash, it returns 0 and a string that is not empty.
func badName(s string) (int, string) {
	if s == "" || s[0] == '-' || len(s) > maxName {
		return 0, s + " "
	}
	return badLetter(s)
}

// IsName reports whether word is one host name or address, without brackets, user or slots. Shells and ssh take
// such a word literally.
func IsName(word string) bool {
	if _, is := parseIPv6(word); is {
		return true
	}
	_, bad := badName(word)
	return bad == ""
}
