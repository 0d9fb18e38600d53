package psi

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A line reads the words of one line of a file; at is "FILE line N".
type line func(words []string, at string) error

// file reads a host file or a PEFILE line by line (1.4). The lines may end with CR
// LF; blanks and commas separate; a word with # in front ends the line.
func (l *listing) file(in Input, each line) error {
	name := strip(l.value)
	if name == "" {
		return nil // an empty list
	}
	text, err := in.Open(name)
	if err != nil {
		return &Error{Code: "hostfile-unreadable", Source: l.source, Token: name, What: "cannot read", Reason: reason(err),
			Allowed: []string{"path of a readable file"}}
	}
	number := 0
	for raw := range strings.SplitSeq(text, "\n") {
		number++
		words := uncomment(words(raw))
		if len(words) == 0 {
			continue
		}
		if err := each(words, fmt.Sprintf("%s line %d", name, number)); err != nil {
			return err
		}
	}
	return nil
}

// reason is why a file cannot be opened, without its name, which is told anyway.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

// uncomment drops comments, and words that choose a network.
func uncomment(all []string) []string {
	var kept []string
	for _, w := range all {
		if strings.HasPrefix(w, "#") {
			break
		}
		if !network(w) {
			kept = append(kept, w)
		}
	}
	return kept
}

// hostLine reads one name. unique keeps one of neighbours that are equal.
func (l *listing) hostLine(unique bool) line {
	return func(words []string, at string) error {
		if len(words) > 1 {
			return l.badFile(words[1], at+": unexpected", "one host name per line")
		}
		before := len(l.turns)
		if err := l.host(words[0], 1); err != nil {
			return in(at, err)
		}
		if unique && before > 0 && l.turns[before] == l.turns[before-1] {
			l.turns = l.turns[:before]
		}
		return nil
	}
}

// countLine reads "HOST COUNT ...": the host takes that many turns.
func (l *listing) countLine(words []string, at string) error {
	const allowed = "HOST COUNT with COUNT 0-65535"
	if len(words) < 2 {
		return l.badFile(words[0], at+": no count behind", allowed)
	}
	count, ok := number(words[1], 0, 65535)
	if !ok {
		return l.badFile(words[1], at+": bad count", allowed)
	}
	return in(at, l.host(words[0], count))
}

// in tells where in a file a fault is.
func in(at string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.What = at + ": " + e.What
	}
	return err
}

func (l *listing) badFile(token, what, allowed string) error {
	return &Error{Code: "bad-hostfile", Source: l.source, Token: token, What: what, Allowed: []string{allowed}}
}
