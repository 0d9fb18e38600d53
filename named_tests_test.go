package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

// hasTest returns an error if there is no test of this name: script/NAME, package.TestName, or package.TestName/ROW,
// where a test of the package has the row's name as a text.
func hasTest(name string) error {
	if script, ok := strings.CutPrefix(name, "script/"); ok {
		_, err := os.Stat(filepath.Join("testdata", "script", script+".txtar"))
		return err
	}
	pkg, test, _ := strings.Cut(name, ".")
	test, row, _ := strings.Cut(test, "/")
	files, err := sourceFiles(".")
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
