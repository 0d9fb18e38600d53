package psi

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A lineReader handles the words of one line of a file. The argument at is the position of the line, in the form
// "FILE line N".
type lineReader func(words []string, at string) error

// readFile reads the file that PSI_HOSTFILE or PSI_PEFILE names, and calls handleLine for each line (placement.md 1.4).
// Lines may end with CR LF. Blanks and commas separate words. A word that begins with # starts a comment.
func (l *nodeList) readFile(in Input, handleLine lineReader) error {
	name := trimBlanks(l.value)
	if name == "" {
		return nil // an empty list
	}
	text, err := in.Open(name)
	if err != nil {
		return &Error{Code: "hostfile-unreadable", Source: l.source, Token: name, Problem: "cannot be read", Reason: openReason(err),
			Allowed: []string{"the path of a file that you may read"}}
	}
	number := 0
	for raw := range strings.SplitSeq(text, "\n") {
		number++
		words := dropComments(splitWords(raw))
		if len(words) == 0 {
			continue
		}
		if err := handleLine(words, fmt.Sprintf("%s line %d", name, number)); err != nil {
			return err
		}
	}
	return nil
}

// openReason returns why a file cannot be opened, without the file name.
func openReason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

// dropComments removes comments, and words that select a network (ifhn=NAME), from the words of a line.
func dropComments(all []string) []string {
	var kept []string
	for _, w := range all {
		if strings.HasPrefix(w, "#") {
			break
		}
		if !isNetworkWord(w) {
			kept = append(kept, w)
		}
	}
	return kept
}

// hostLineReader returns a lineReader for lines with one host name. If unique is true, adjacent lines with the
// same name result in one entry.
func (l *nodeList) hostLineReader(unique bool) lineReader {
	return func(words []string, at string) error {
		if len(words) > 1 {
			return l.badFileError(at, words[1], "is one word too many", "one host name on each line")
		}
		before := len(l.entries)
		if err := l.addHost(words[0], 1); err != nil {
			return atLine(at, err)
		}
		if unique && before > 0 && l.entries[before] == l.entries[before-1] {
			l.entries = l.entries[:before]
		}
		return nil
	}
}

// readCountLine parses a line of the form "HOST COUNT ..." and adds the host COUNT times.
func (l *nodeList) readCountLine(words []string, at string) error {
	const allowed = "lines HOST COUNT, with COUNT from 0 to 65535"
	if len(words) < 2 {
		return l.badFileError(at, words[0], "has no count", allowed)
	}
	count, ok := parseNumber(words[1], 0, 65535)
	if !ok {
		return l.badFileError(at, words[1], "is not a count", allowed)
	}
	return atLine(at, l.addHost(words[0], count))
}

// atLine adds a position, which is a file name and a line number, to an error.
func atLine(at string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Line = at
	}
	return err
}

func (l *nodeList) badFileError(at, token, problem, allowed string) error {
	return &Error{Code: "bad-hostfile", Source: l.source, Line: at, Token: token, Problem: problem, Allowed: []string{allowed}}
}
