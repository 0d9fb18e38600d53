// Package doctable compares a table in a document with the table that a test has generated, or replaces it.
package doctable

import (
	"os"
	"strings"
	"testing"
)

// CheckTable compares text with the part of a file between two lines, begin and end. If they differ, the test fails.
// If update is true, CheckTable writes text to the file instead. how is the command that updates the file, for the
// failure message.
func CheckTable(t *testing.T, file, begin, end, text string, update bool, how string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	above, rest, found := strings.Cut(string(page), begin)
	old, below, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if old == text {
		return
	}
	if !update {
		t.Fatalf("%s is not what Step does; %s writes\n%s", file, how, text)
	}
	if err := os.WriteFile(file, []byte(above+begin+text+end+below), 0o644); err != nil {
		t.Fatal(err)
	}
}
