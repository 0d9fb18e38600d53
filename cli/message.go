package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"remshell/cli/option"
	"remshell/show"
	"remshell/text"
)

// A message is what mpiexec tells a person at one time: what happened, and below it reasons, what to do, and what else is known.
type message struct {
	kind
	text  string   // behind "mpiexec: "; lines of a file that it shows follow as they are
	below []string // lines, with their indent
}

// A kind says how much a message matters.
type kind int

const (
	note kind = iota
	warning
	failure
)

// kindOf is the kind of what is said while a job runs, which says itself that it is a warning.
func kindOf(text string) kind {
	if strings.HasPrefix(text, "warning:") {
		return warning
	}
	return note
}

/*
render is a message as it is printed: lines that are longer than width are folded at blanks, and the first is bold, in
the colour of its kind. Without a width nothing is folded.

	mpiexec: 3 ranks do not fit: there are free slots
	    for 2 on 1 node (localhost)
	  hint: start fewer ranks, name more hosts, or leave
	    out --nooversubscribe
*/
func (m message) render(width int, colour bool) string {
	const indent = 4 // of what goes on
	begin, end := "", ""
	if colour {
		begin, end = [...]string{note: "\x1b[1m", warning: "\x1b[1;33m", failure: "\x1b[1;31m"}[m.kind], "\x1b[0m"
	}
	first, source, shows := strings.Cut(m.text, "\n")
	var b strings.Builder
	for _, line := range text.Fold("mpiexec: "+first, width, indent) {
		b.WriteString(begin + line + end + "\n")
	}
	if shows {
		b.WriteString(source + "\n")
	}
	for _, below := range m.below {
		for _, line := range text.Fold(below, width, indent) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// A screen is where messages go, to standard error in the end.
type screen struct {
	io.Writer
	terminal *os.File // where standard error is one; nil: it is none
	colour   bool
}

// screen is the one of this program; w leads to standard error.
func (s System) screen(w io.Writer, j option.Job) screen {
	to := screen{Writer: w, colour: coloured(j.Color, s.getenv, isTerminal(s.Err))}
	if isTerminal(s.Err) {
		to.terminal = s.Err.(*os.File)
	}
	return to
}

// print writes a message, in one piece. The width of a terminal may have changed.
func (s screen) print(m message) {
	io.WriteString(s, m.render(widthOf(s.terminal), s.colour))
}

// widthOf is that of a terminal; 0: w is none.
func widthOf(w any) int {
	if file, ok := w.(*os.File); ok && file != nil {
		width, _, _ := term.GetSize(int(file.Fd()))
		return width
	}
	return 0
}

// say writes a line about a job that runs.
func (s screen) say(text string) { s.print(message{kind: kindOf(text), text: show.Clean(text)}) }

// fail writes what ended a job, or did not happen that a rank wanted, and what is known of that, line by line.
func (s screen) fail(lines []string) {
	for i, line := range lines {
		lines[i] = show.Clean(line)
	}
	s.print(message{kind: failure, text: lines[0], below: lines[1:]})
}
