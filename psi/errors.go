package psi

import (
	"fmt"
	"strings"
)

// An Error is something malformed or unknown that was said about a placement. Its
// code is one of placement.md 1.5; it is never a matter of waiting.
type Error struct {
	Code    string
	Source  string // the flag or variable at fault; empty: none
	Token   string // what it says
	Problem string // what is wrong with that
	Reason  string // why, if there is more to say
	Allowed []string
}

// Error has all of it: the user shall not have to look anything up.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Source != "" {
		b.WriteString(e.Source + ": ")
	}
	b.WriteString(e.Problem)
	if e.Source != "" {
		fmt.Fprintf(&b, " %q", e.Token)
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if len(e.Allowed) > 0 {
		b.WriteString("; allowed: " + strings.Join(e.Allowed, ", "))
	}
	return b.String()
}
