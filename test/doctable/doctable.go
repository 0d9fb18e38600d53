// Package doctable keeps a table of a document what a test has made: by comparing it, or by
// writing it anew.
package doctable

import (
	"os"
	"strings"
	"testing"
)

// CheckTable compares what stands between two lines of a file with text. If it differs, the test
// fails, or the file gets the text if update is true; how says by which command.
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
