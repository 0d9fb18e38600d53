package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxReported is how many faults are told at once (CLI-10).
const maxReported = 10

// report writes what went wrong, each fault with its own prefix and what to do
// about it. A fault may have several lines; those that follow are part of it.
func report(w io.Writer, err error) {
	for i, fault := range faults(err) {
		if i == maxReported {
			break
		}
		fmt.Fprintf(w, "mpiexec: %s\n", explain(fault))
	}
}

// faults takes a collection of errors apart.
func faults(err error) []error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return []error{err}
	}
	var all []error
	for _, e := range several.Unwrap() {
		all = append(all, faults(e)...)
	}
	return all
}

// explain is the text of a fault and the hint of the first error in its chain that
// has one.
func explain(err error) string {
	text := strings.TrimPrefix(err.Error(), "mpiexec: ")
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		text += "; " + h.Hint()
	}
	return text
}
