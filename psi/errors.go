package psi

import (
	"fmt"
	"strings"
)

// An Error is returned for a malformed or unknown placement setting. Its code is one of the codes in
// placement.md 1.5. Waiting in the queue does not resolve such an error.
type Error struct {
	Code    string
	Source  string // option or variable at fault; empty: none
	Line    string // the line at fault, as "FILE line N"; may be empty
	Token   string // the faulty value
	Problem string // the problem in words, as a predicate of the token; a whole sentence if Source is empty
	Reason  string // details; may be empty
	Allowed []string
}

// Error returns all fields of the error on one line, so that the user need not look up the code.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Source != "" {
		b.WriteString(e.Source + ": ")
		if e.Line != "" {
			b.WriteString(e.Line + ": ")
		}
		fmt.Fprintf(&b, "%q ", e.Token)
	}
	b.WriteString(e.Problem)
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if len(e.Allowed) > 0 {
		b.WriteString("; allowed: " + strings.Join(e.Allowed, ", "))
	}
	return b.String()
}
