package option

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// In the manual's tables for users of other launchers, each option in the second column is one of ours and accepts the
// value.
func TestManualsTables(t *testing.T) {
	text, err := os.ReadFile("../../doc/manual.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([^`]*)`")
	coming, seen := "", 0
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			coming = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if !strings.HasPrefix(coming, "Coming from") && coming != "Where ranks run" && coming != "A cluster of several kinds of nodes" || len(cells) != 4 {
			continue
		}
		for _, m := range word.FindAllStringSubmatch(cells[2], -1) {
			args := strings.Fields(strings.TrimPrefix(m[1], "mpiexec "))
			if !strings.HasPrefix(args[0], "-") {
				continue
			}
			seen++
			if err := parsePiece(args); err != nil {
				t.Errorf("%s: %s: %v", coming, m[1], err)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d options found in the tables", seen)
	}
}

// parsePiece parses a piece of a command line. One option alone may lack its value.
func parsePiece(args []string) error {
	if len(args) == 1 && !strings.Contains(args[0], "=") {
		if _, ok := Mpiexec(linuxSignals).findSpelling(args[0]); ok {
			return nil
		}
	}
	_, err := Mpiexec(linuxSignals).Parse(append(args, "program"), Sources{})
	return err
}
