package cli

import (
	"errors"
	"testing"

	"remshell/hostlist"
	"remshell/usererr"
)

// On a terminal, lines of a message are folded, the first is bold, failures are red and warnings yellow. Elsewhere
// lines are not folded and plain.
func TestMessagesFoldAndHaveColours(t *testing.T) {
	refusal := message{failureMessage, "3 ranks do not fit: there are free slots for only 2 ranks on 1 node (localhost)",
		[]string{"  n1: all 2 CPUs are in use", "  hint: start fewer ranks, name more hosts, or leave out --nooversubscribe"}}
	for _, test := range []struct {
		name   string
		m      message
		width  int
		colour bool
		want   string
	}{
		{"a pipe", refusal, 0, false, "mpiexec: 3 ranks do not fit: there are free slots for only 2 ranks on 1 node (localhost)\n  n1: all 2 CPUs are in use\n" +
			"  hint: start fewer ranks, name more hosts, or leave out --nooversubscribe\n"},
		{"a narrow terminal", refusal, 49, false, "mpiexec: 3 ranks do not fit: there are free slots\n    for only 2 ranks on 1 node (localhost)\n  n1: all 2 CPUs are in use\n" +
			"  hint: start fewer ranks, name more hosts, or\n    leave out --nooversubscribe\n"},
		{"a failure", message{failureMessage, "no host is left", nil}, 80, true, "\x1b[1;31mmpiexec: no host is left\x1b[0m\n"},
		{"a warning", message{warningMessage, "warning: -demux is ignored", nil}, 80, true, "\x1b[1;33mmpiexec: warning: -demux is ignored\x1b[0m\n"},
		{"a note, folded", message{noteMessage, "attempt 1: 4 ranks", []string{"  then"}}, 20, true, "\x1b[1mmpiexec: attempt 1:\x1b[0m\n\x1b[1m    4 ranks\x1b[0m\n  then\n"},
		{"the lines of a file stay", message{failureMessage, "hosts:1:3: bad name\n  1| a b c d e f g h i j k l m n\n   |   ^", []string{"  hint: mend it"}}, 30, false,
			"mpiexec: hosts:1:3: bad name\n  1| a b c d e f g h i j k l m n\n   |   ^\n  hint: mend it\n"},
		{"no terminal is so narrow", message{noteMessage, "four words are here", nil}, 5, false, "mpiexec: four words are here\n"},
		{"a word that does not fit", message{noteMessage, "see /a/path/that/is/much/longer/than/the/terminal/is for it", nil}, 24, false,
			"mpiexec: see\n    /a/path/that/is/much/longer/than/the/terminal/is\n    for it\n"},
	} {
		if got := test.m.render("mpiexec", test.width, test.colour); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// A hint has a line of its own, after the text and the quoted lines of a file.
func TestTheHintHasItsOwnLine(t *testing.T) {
	syntax := &hostlist.SyntaxError{File: "hosts", Line: 1, Col: 1, Width: 1, Source: "a b", Reason: "bad"}
	for want, err := range map[string]error{
		"mpiexec: --pin contradicts --no-pin\n  hint: use only one of them\n": &usererr.Error{Text: "--pin contradicts --no-pin", Remedy: "use only one of them"},
		"mpiexec: two\\x1b lines\n  hint: one \\x1b[1mline\n":                 &usererr.Error{Text: "two\x1b\nlines", Remedy: "one\n\x1b[1mline"},
		"mpiexec: hosts:1:1: bad\n  1 | a b\n    | ^\n  hint: mend it\n":      &hintedError{syntax},
		"mpiexec: no hint\n": errors.New("no hint"),
	} {
		if got := errorMessage(err).render("mpiexec", 0, false); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// A hintedError is an error with a hint.
type hintedError struct{ error }

func (h *hintedError) Unwrap() error { return h.error }
func (h *hintedError) Hint() string  { return "mend it" }
