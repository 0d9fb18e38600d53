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

// A message is a line that mpiexec prints for the user, with reasons, hints or facts in the lines below it.
type message struct {
	messageKind
	text    string   // printed after the program's name; after a newline, lines of a file that the text quotes
	details []string // lines below the text, with their indent
}

// A messageKind is the severity of a message.
type messageKind int

const (
	noteMessage messageKind = iota
	warningMessage
	failureMessage
)

// messageKindOf returns the kind of a message that is printed while a job runs. A text that begins with
// "warning:" is a warning, and any other text is a note.
func messageKindOf(text string) messageKind {
	if strings.HasPrefix(text, "warning:") {
		return warningMessage
	}
	return noteMessage
}

/*
render returns the message as it is printed. program is the name with which the message begins. Lines longer than
width are folded at blanks; if width is 0, they are not. If colour is true, the first line is bold and in the colour
of the message's kind.

	mpiexec: 3 ranks do not fit: there are free slots
	    for only 2 ranks on 1 node (localhost)
	  hint: start fewer ranks, name more hosts, or leave
	    out --nooversubscribe
*/
func (m message) render(program string, width int, colour bool) string {
	const indent = 4 // of continuation lines
	begin, end := "", ""
	if colour {
		begin, end = [...]string{noteMessage: "\x1b[1m", warningMessage: "\x1b[1;33m", failureMessage: "\x1b[1;31m"}[m.messageKind], "\x1b[0m"
	}
	first, source, hasSource := strings.Cut(m.text, "\n")
	var b strings.Builder
	for _, line := range text.WrapLine(program+": "+first, width, indent) {
		b.WriteString(begin + line + end + "\n")
	}
	if hasSource {
		b.WriteString(source + "\n")
	}
	for _, detail := range m.details {
		for _, line := range text.WrapLine(detail, width, indent) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// A messagePrinter prints messages to its Writer, which passes them on to standard error.
type messagePrinter struct {
	io.Writer
	terminal *os.File // standard error if it is a terminal; else nil
	colour   bool
	program  string // with which messages begin
}

// newMessagePrinter returns a messagePrinter that prints to w. w must pass on to standard error what it receives.
func (s System) newMessagePrinter(w io.Writer, j option.JobOptions) messagePrinter {
	to := messagePrinter{Writer: w, program: s.programName(), colour: useColor(j.Color, s.getenv, isTerminal(s.Err))}
	if isTerminal(s.Err) {
		to.terminal = s.Err.(*os.File)
	}
	return to
}

// printMessage prints a message in one call of Write. It folds the message at the current width of the terminal.
func (s messagePrinter) printMessage(m message) {
	io.WriteString(s, m.render(s.program, widthOf(s.terminal), s.colour))
}

// widthOf returns the width of a terminal in columns. It is 0 if w is not a terminal.
func widthOf(w any) int {
	if file, ok := w.(*os.File); ok && file != nil {
		width, _, _ := term.GetSize(int(file.Fd()))
		return width
	}
	return 0
}

// printLine prints text as a warning if it begins with "warning:", and as a note otherwise.
func (s messagePrinter) printLine(text string) {
	s.printMessage(message{messageKind: messageKindOf(text), text: format.EscapeSentence(text)})
}

// printFailure prints a failure of the job or of a rank. lines[0] is the failure, and the other lines are details.
// printFailure escapes the elements of lines in place.
func (s messagePrinter) printFailure(lines []string) {
	for i, line := range lines {
		lines[i] = format.EscapeSentence(line)
	}
	s.printMessage(message{messageKind: failureMessage, text: lines[0], details: lines[1:]})
}
