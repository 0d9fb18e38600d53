package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// report writes what went wrong, each fault with its own prefix and what to do
// about it. A fault may have several lines; those that follow are part of it. Lists
// of faults are as long as whoever made them thinks fit (CLI-10: ten).
func report(w io.Writer, err error) {
	if _, told := err.(notPlaced); told {
		return
	}
	for _, fault := range faults(err) {
		fmt.Fprintf(w, "mpiexec: %s\n", explain(fault))
	}
}

// faults takes a collection of errors apart.
func faults(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
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
