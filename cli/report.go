package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/plan"
	"remshell/show"
)

// report writes what went wrong, each fault with its own prefix and what to do
// about it. A fault may have several lines; those that follow are part of it. Lists
// of faults are as long as whoever made them thinks fit (CLI-10: ten).
func report(w io.Writer, err error) {
	if _, told := err.(notPlaced); told {
		return
	}
	for _, e := range fault.Each(err) {
		fmt.Fprintf(w, "mpiexec: %s\n", explain(e))
	}
}

// explain is the text of a fault and the hint of the first error in its chain that
// has one. Only what is said of a line of a file, which it shows, has lines of its own:
// all others are on one, whatever a host has put into them (TRUST-28).
func explain(err error) string {
	text := strings.TrimPrefix(err.Error(), "mpiexec: ")
	if showsSource(err) {
		text = show.CleanLines(text)
	} else {
		text = show.Clean(text)
	}
	if hint := fault.Hint(err); hint != "" {
		text += "; " + show.Clean(hint)
	}
	return text
}

// showsSource reports whether the text of a fault goes on with a line of a file and a mark
// below it.
func showsSource(err error) bool {
	var syntax *hostlist.SyntaxError
	var failed *plan.Error
	return errors.As(err, &syntax) || errors.As(err, &failed) && failed.At != nil
}
