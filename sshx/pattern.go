package sshx

import "strings"

// matchWildcard reports whether s matches a pattern with the wildcards * and ? (ssh_config(5), PATTERNS). In the worst
// case, it takes time proportional to len(pattern)*len(s).
func matchWildcard(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0: // let the last star match one more character
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchPatterns reports whether s matches one of the patterns, and none of the patterns that begin with '!'.
// If all patterns begin with '!', nothing matches.
func matchPatterns(patterns []string, s string) bool {
	found := false
	for _, p := range patterns {
		p, negated := strings.CutPrefix(p, "!")
		if !matchWildcard(p, s) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// matchList is like matchPatterns, for a string of patterns separated by commas.
func matchList(list, s string) bool { return matchPatterns(strings.Split(list, ","), s) }

// matchHost reports whether a host name matches a list of patterns separated by commas. It ignores case.
func matchHost(list, name string) bool {
	return matchList(strings.ToLower(list), strings.ToLower(name))
}

// splitArgs splits a configuration value into words at white space, as OpenSSH's argv_split does. '...' and "..."
// enclose words that contain white space. A backslash escapes a quote or another backslash. A # at the start of a
// word begins a comment. ok is false if quotes are unbalanced.
func splitArgs(s string) (args []string, ok bool) { return splitWords(s, true) }

// splitWords splits s into words as splitArgs does. If comments is false, # is an ordinary character.
func splitWords(s string, comments bool) (args []string, ok bool) {
	for i := 0; i < len(s); {
		if s[i] == ' ' || s[i] == '\t' {
			i++
			continue
		}
		if comments && s[i] == '#' {
			break
		}
		word, n, closed := firstQuotedArg(s[i:])
		if !closed {
			return nil, false
		}
		args = append(args, word)
		i += n
	}
	return args, true
}

// firstQuotedArg returns the first word of s, and how many bytes of s the word takes. closed is false if a quote is
// not closed.
func firstQuotedArg(s string) (word string, n int, closed bool) {
	var b strings.Builder
	quote := byte(0)
	for n < len(s) {
		c := s[n]
		switch {
		case c == '\\' && n+1 < len(s) && escapable(s[n+1], quote):
			n++
			b.WriteByte(s[n])
		case quote == 0 && (c == ' ' || c == '\t'):
			return b.String(), n, true
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote && quote != 0:
			quote = 0
		default:
			b.WriteByte(c)
		}
		n++
	}
	return b.String(), n, quote == 0
}

// escapable reports whether a backslash escapes the character c (misc.c, argv_split): a quote, a backslash or,
// outside of quotes, a blank. quote is the quote that is open, or 0.
func escapable(c, quote byte) bool {
	return c == '\'' || c == '"' || c == '\\' || (quote == 0 && c == ' ')
}
