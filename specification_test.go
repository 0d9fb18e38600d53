package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	sectionHeading = regexp.MustCompile(`(?m)^#{2,4} (?:Appendix )?([0-9A-Z]+(?:\.[0-9]+)*)[. ]`)
	ruleHeading    = regexp.MustCompile(`(?m)^#### ([A-Z]+)-([0-9]+)$`)
	sectionCited   = regexp.MustCompile(`\b([a-z][a-z-]*\.md) (?:section )?([0-9]+(?:\.[0-9]+)*)`)
	ruleCited      = regexp.MustCompile(`\b([A-Z]{2,5})-([0-9]+)\b`)
	vector         = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|$")
)

// A specification is what the pages of doc/spec say, by the names under which it is cited.
type specification struct {
	pages        map[string]bool // trust.md
	sections     map[string]bool // placement.md 6.4, TRUST-27
	rulePrefixes map[string]bool // TRUST
}

func readSpecification(t *testing.T) specification {
	l := specification{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	files, _ := filepath.Glob("doc/spec/*.md")
	for _, file := range files {
		page, text := filepath.Base(file), readText(t, file)
		l.pages[page] = true
		for _, m := range sectionHeading.FindAllStringSubmatch(text, -1) {
			l.sections[page+" "+m[1]] = true
		}
		for _, m := range ruleHeading.FindAllStringSubmatch(text, -1) {
			l.sections[m[1]+"-"+m[2]], l.rulePrefixes[m[1]] = true, true
		}
	}
	return l
}

// missingCitations lists the citations in a text that lead nowhere, and how many there are in all.
func (l specification) missingCitations(text string) (lost []string, all int) {
	for _, m := range sectionCited.FindAllStringSubmatch(text, -1) {
		if all++; !l.sections[m[1]+" "+m[2]] {
			lost = append(lost, m[0])
		}
	}
	for _, m := range ruleCited.FindAllStringSubmatch(text, -1) {
		if !l.rulePrefixes[m[1]] {
			continue // PMI-2, UTF-8
		}
		if all++; !l.sections[m[0]] {
			lost = append(lost, m[0])
		}
	}
	return lost, all
}

// What a comment, or a page of doc, cites of the law is in doc/spec.
func TestLaw(t *testing.T) {
	l := readSpecification(t)
	cited := 0
	check := func(file, text string) {
		lost, all := l.missingCitations(text)
		cited += all
		for _, place := range lost {
			t.Errorf("%s cites %s, which is not in doc/spec", file, place)
		}
	}
	files, err := sourceFiles(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			check(file, strings.Join(strings.Fields(group.Text()), " "))
		}
	}
	pages, _ := filepath.Glob("doc/*.md")
	records, _ := filepath.Glob("doc/adr/*.md")
	for _, file := range append(pages, records...) {
		check(file, strings.Join(strings.Fields(readText(t, file)), " "))
	}
	if cited < 100 {
		t.Errorf("only %d citations found: this test reads them wrongly", cited)
	}
}

// The vectors that a page of the law ends in are there, and so are the tests that read them.
func TestVectorsOfTheLaw(t *testing.T) {
	files, _ := filepath.Glob("doc/spec/*.md")
	found := 0
	for _, file := range files {
		_, end, _ := strings.Cut(readText(t, file), "\n## Vectors\n")
		for _, row := range vector.FindAllStringSubmatch(end, -1) {
			found++
			if found, _ := filepath.Glob(row[1]); len(found) == 0 {
				t.Errorf("%s: there is no %s", file, row[1])
			}
			if err := hasTest(strings.TrimSpace(row[2])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if found == 0 {
		t.Error("no vectors found: this test reads the pages wrongly")
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
