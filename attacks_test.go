package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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
			if why := missingTest(strings.Trim(test, " `")); why != "" {
				t.Errorf("attack %q: %s", name, why)
			}
		}
	}
}

// missingTest says what is wrong with the name of a test; empty: nothing.
func missingTest(name string) string {
	pkg, test, named := strings.Cut(name, ".")
	test, part, _ := strings.Cut(test, "/")
	if !named {
		return name + " is no package.Test"
	}
	if pkg == "main" {
		pkg = "."
	}
	files, _ := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	declared, mentioned := false, part == ""
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err.Error()
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == test {
				declared = true
			}
		}
		text, _ := os.ReadFile(file)
		mentioned = mentioned || strings.Contains(string(text), `"`+part+`"`)
	}
	switch {
	case !declared:
		return "there is no test " + pkg + "." + test
	case !mentioned:
		return "test " + pkg + "." + test + " has no part " + part
	}
	return ""
}
