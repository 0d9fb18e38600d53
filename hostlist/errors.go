package hostlist

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A SyntaxError is an error at one position in a host list or host file. It is printed in the form of rule HOST-12:
//
//	cluster.hosts:7:9: unknown key "slotz" (did you mean "slots"?)
//	  7 | node07  slotz=4
//	    |         ^~~~~
type SyntaxError struct {
	File      string
	Line, Col int    // from 1, in characters; Line is 0 for a list
	Width     int    // number of wrong characters, at least 1
	Source    string // the whole line
	Reason    string
}

// Where returns the position of the error as "FILE:LINE:COL" for a file, or "-host:COL" for a list.
func (e *SyntaxError) Where() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s:%d", quoteUnprintable(e.File), e.Col)
	}
	return fmt.Sprintf("%s:%d:%d", quoteUnprintable(e.File), e.Line, e.Col)
}

// quoteUnprintable returns name, in quotes if it contains characters that a terminal would not print.
func quoteUnprintable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

func (e *SyntaxError) Error() string {
	number := ""
	if e.Line > 0 {
		number = fmt.Sprintf("%d ", e.Line)
	}
	source, lead, width := e.window()
	return fmt.Sprintf("%s: %s\n  %s| %s\n  %*s| %s^%s", e.Where(), e.Reason,
		number, source, len(number), "", lead, strings.Repeat("~", width-1))
}

// window returns the excerpt of the source line that is printed with the error, and what is needed to mark the error on
// the line below it. In source, unprintable characters are replaced. lead is the blank space before the mark (^~~),
// with the same tabs as source, so that the mark is aligned. width is the width of the mark.
func (e *SyntaxError) window() (source, lead string, width int) {
	const before, most = 60, 100
	runes := []rune(e.Source)
	at := min(max(e.Col-1, 0), len(runes))
	from := 0
	if len(runes) > most && at > before {
		from = at - before
	}
	to := min(from+most, len(runes))
	var line, blanks strings.Builder
	for i, r := range runes[from:to] {
		if !unicode.IsPrint(r) && r != '\t' {
			r = utf8.RuneError
		}
		line.WriteRune(r)
		if from+i < at {
			if r != '\t' {
				r = ' '
			}
			blanks.WriteRune(r)
		}
	}
	return line.String(), blanks.String(), max(1, min(e.Width, to-at))
}

// Errors lists the errors of one list or file in order, at most ten. If there are more errors, the last element
// says how many. Its method Unwrap returns the errors, so that the caller can print each with its own prefix.
type Errors []error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) Unwrap() []error { return e }

// An errorList collects errors. The zero value is an empty list.
type errorList struct {
	first Errors
	more  int
}

func (f *errorList) addError(err error) {
	if len(f.first) == maxErrors {
		f.more++
		return
	}
	f.first = append(f.first, err)
}

func (f *errorList) isEmpty() bool { return len(f.first) == 0 }

// asError returns one error with the first maxErrors errors and the number of the others, or nil if there are none.
func (f *errorList) asError() error {
	switch {
	case f.isEmpty():
		return nil
	case f.more == 0:
		return f.first
	}
	return append(f.first, fmt.Errorf("and %d more", f.more))
}

// A sourceLine is one line of a file, or a whole list, with its file name and line number.
type sourceLine struct {
	file string
	line int // 0 for a list
	text string
}

// errorAt returns an error about the bytes [start, end) of the line.
func (s sourceLine) errorAt(start, end int, format string, args ...any) *SyntaxError {
	start = min(start, len(s.text))
	end = min(max(start, end), len(s.text))
	return &SyntaxError{
		File: s.file, Line: s.line, Source: s.text,
		Col:    utf8.RuneCountInString(s.text[:start]) + 1,
		Width:  max(1, utf8.RuneCountInString(s.text[start:end])),
		Reason: fmt.Sprintf(format, args...),
	}
}

// errorAt returns an error about the whole host entry.
func (e Entry) errorAt(format string, args ...any) *SyntaxError {
	return &SyntaxError{
		File: e.File, Line: e.Line, Col: e.Col, Width: max(1, e.width),
		Source: e.text, Reason: fmt.Sprintf(format, args...),
	}
}
