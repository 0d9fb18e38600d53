package option

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// In the guide's tables with a column titled "write", "here" or "option", each option in that column is one of ours and
// accepts the value.
func TestOptionsInTablesOfTheGuide(t *testing.T) {
	pages, err := filepath.Glob("../../doc/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([^`]*)`")
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		column := -1 // whose options are checked
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			if len(cells) < 4 {
				column = -1
				continue
			}
			if column < 0 {
				column = slices.IndexFunc(cells, func(c string) bool {
					title := strings.TrimSpace(c)
					return title == "write" || title == "option" || strings.HasPrefix(title, "here")
				})
				column = max(column, 0) // the text before the first bar
			}
			if column == 0 || column >= len(cells) {
				continue
			}
			for _, m := range word.FindAllStringSubmatch(cells[column], -1) {
				args := strings.Fields(strings.TrimPrefix(m[1], "mpiexec "))
				if !strings.HasPrefix(args[0], "-") {
					continue
				}
				seen++
				if err := parsePiece(args); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), m[1], err)
				}
			}
		}
	}
	if seen < 150 {
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
