package usererr

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Split returns the single errors of nested joins. Hint returns the first hint of a chain.
func TestSplit(t *testing.T) {
	a, b := &Error{Text: "a", Remedy: "mend a"}, &Error{Text: "b"}
	wrapped := fmt.Errorf("in a file: %w", a)
	all := Split(errors.Join(wrapped, errors.Join(b, errors.New("c"))))
	var told []string
	for _, err := range all {
		told = append(told, err.Error()+"; "+Hint(err))
	}
	if want := []string{"in a file: a; mend a", "b; ", "c; "}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}
