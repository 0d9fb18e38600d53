package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var attackNumber = regexp.MustCompile(`^[A-Z][0-9]+ `)

// Every attack that doc/attacks.md tells of has a number of its own, and a test that exists.
func TestAttacks(t *testing.T) {
	text, err := os.ReadFile("doc/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| attack ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Errorf("%d cells instead of 5: %s", len(cells), line)
			continue
		}
		name := strings.TrimSpace(cells[0])
		number := strings.TrimSpace(attackNumber.FindString(name))
		if number == "" || seen[number] {
			t.Errorf("attack %q has no number, or that of another one", name)
		}
		seen[number] = true
		for test := range strings.SplitSeq(cells[4], ",") {
			if err := hasTest(strings.Trim(test, " `")); err != nil {
				t.Errorf("attack %q: %v", name, err)
			}
		}
	}
}
