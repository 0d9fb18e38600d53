package sshx

import "strings"

// matchWildcard says whether s matches a pattern of * and ? (ssh_config(5),
// PATTERNS). It takes time in the order of len(pattern)*len(s) at worst.
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
		case star >= 0: // let the last star take one character more
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchPatterns says whether s matches one of the patterns and none of those
// that begin with '!'. A negated pattern alone matches nothing.
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

// matchList is matchPatterns with patterns that commas separate.
func matchList(list, s string) bool { return matchPatterns(strings.Split(list, ","), s) }

// matchHost is matchList for names of hosts: case does not count.
func matchHost(list, name string) bool {
	return matchList(strings.ToLower(list), strings.ToLower(name))
}

// splitArgs splits a configuration value like OpenSSH's argv_split: at white
// space, with '...' and "..." for words that contain some, backslash before a
// quote or itself, and # at the start of a word for the rest being comment.
// Unbalanced quotes give ok false.
func splitArgs(s string) (args []string, ok bool) { return splitWords(s, true) }

// splitWords is splitArgs; in the words of a command there are no comments.
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

// firstQuotedArg takes the first word of s and says how many bytes it had.
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

// escapable follows misc.c, argv_split: quotes and the backslash itself, and
// outside of quotes also the space.
func escapable(c, quote byte) bool {
	return c == '\'' || c == '"' || c == '\\' || (quote == 0 && c == ' ')
}
