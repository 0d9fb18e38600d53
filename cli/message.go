package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"remshell/cli/option"
	"remshell/format"
	"remshell/text"
)

// A message is what mpiexec tells a person at one time: what happened, and below it reasons, what to do, and what else is known.
type message struct {
	messageKind
	text    string   // behind "mpiexec: "; lines of a file that it shows follow as they are
	details []string // lines, with their indent
}

// A messageKind says how much a message matters.
type messageKind int

const (
	noteMessage messageKind = iota
	warningMessage
	failureMessage
)

// messageKindOf is the kind of what is said while a job runs, which says itself that it is a warning.
func messageKindOf(text string) messageKind {
	if strings.HasPrefix(text, "warning:") {
		return warningMessage
	}
	return noteMessage
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
		begin, end = [...]string{noteMessage: "\x1b[1m", warningMessage: "\x1b[1;33m", failureMessage: "\x1b[1;31m"}[m.messageKind], "\x1b[0m"
	}
	first, source, shows := strings.Cut(m.text, "\n")
	var b strings.Builder
	for _, line := range text.WrapLine("mpiexec: "+first, width, indent) {
		b.WriteString(begin + line + end + "\n")
	}
	if shows {
		b.WriteString(source + "\n")
	}
	for _, below := range m.details {
		for _, line := range text.WrapLine(below, width, indent) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// A messagePrinter is where messages go, to standard error in the end.
type messagePrinter struct {
	io.Writer
	terminal *os.File // where standard error is one; nil: it is none
	colour   bool
}

// newMessagePrinter is the one of this program; w leads to standard error.
func (s System) newMessagePrinter(w io.Writer, j option.JobOptions) messagePrinter {
	to := messagePrinter{Writer: w, colour: useColor(j.Color, s.getenv, isTerminal(s.Err))}
	if isTerminal(s.Err) {
		to.terminal = s.Err.(*os.File)
	}
	return to
}

// printMessage writes a message, in one piece. The width of a terminal may have changed.
func (s messagePrinter) printMessage(m message) {
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

// printLine writes a line about a job that runs.
func (s messagePrinter) printLine(text string) {
	s.printMessage(message{messageKind: messageKindOf(text), text: format.EscapeSentence(text)})
}

// printFailure writes what ended a job, or did not happen that a rank wanted, and what is known of that, line by line.
func (s messagePrinter) printFailure(lines []string) {
	for i, line := range lines {
		lines[i] = format.EscapeSentence(line)
	}
	s.printMessage(message{messageKind: failureMessage, text: lines[0], details: lines[1:]})
}
