package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules are the groups of cli.md and trust.md whose tests doc/rules.md lists, and how many
// rules each has.
var rules = map[string]int{"IO": 15, "EXIT": 6, "SIG": 7, "REP": 6, "ENV": 9, "ARG": 2, "TRUST": 36, "line": 25}

// Every rule has a test, and every test that doc/rules.md names is there.
func TestRules(t *testing.T) {
	text, err := os.ReadFile("doc/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "-") || strings.HasPrefix(cells[1], "--") {
			continue
		}
		rule := strings.TrimSpace(cells[1])
		listed = append(listed, rule)
		for test := range strings.SplitSeq(cells[3], ";") {
			if err := hasTest(strings.TrimSpace(test)); err != nil {
				t.Errorf("doc/rules.md: %s: %v", rule, err)
			}
		}
	}
	for group, n := range rules {
		for i := range n {
			if rule := fmt.Sprintf("%s-%d", group, i+1); !slices.Contains(listed, rule) {
				t.Errorf("doc/rules.md has no line for %s", rule)
			}
		}
	}
}

// The tests that doc/supervision.md names are there.
func TestFaultsOfTheManual(t *testing.T) {
	text, err := os.ReadFile("doc/supervision.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || !strings.Contains(cells[4], ".Test") {
			continue
		}
		found++
		if err := hasTest(strings.TrimSpace(cells[4])); err != nil {
			t.Errorf("doc/supervision.md: %s: %v", cells[1], err)
		}
	}
	if found == 0 {
		t.Error("no test found in doc/supervision.md: this test reads it wrongly")
	}
}

// hasTest looks for a test as doc/rules.md names it: script/NAME, package.TestName, or
// package.TestName/ROW, of which the package's tests must have the row as a text.
func hasTest(name string) error {
	if script, ok := strings.CutPrefix(name, "script/"); ok {
		_, err := os.Stat(filepath.Join("testdata", "script", script+".txtar"))
		return err
	}
	pkg, test, _ := strings.Cut(name, ".")
	test, row, _ := strings.Cut(test, "/")
	files, err := sources(".")
	if err != nil {
		return err
	}
	var source strings.Builder
	for _, file := range files {
		if folder := filepath.Base(filepath.Dir(file)); !strings.HasSuffix(file, "_test.go") || folder != pkg && (folder != "." || pkg != "" && pkg != "main") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source.Write(text)
	}
	if !strings.Contains(source.String(), "\nfunc "+test+"(t *testing.T)") {
		return fmt.Errorf("there is no test %q", name)
	}
	if row != "" && !strings.Contains(source.String(), `"`+row+`"`) {
		return fmt.Errorf("test %s.%s has no row %q", pkg, test, row)
	}
	return nil
}
