package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remshell/pin"
)

var (
	sectionHeading = regexp.MustCompile(`(?m)^#{2,4} (?:Appendix )?([0-9A-Z]+(?:\.[0-9]+)*)[. ]`)
	ruleHeading    = regexp.MustCompile(`(?m)^#### ([A-Z]+)-([0-9]+)$`)
	sectionCited   = regexp.MustCompile(`\b([a-z][a-z-]*\.md) (?:section )?([0-9]+(?:\.[0-9]+)*)`)
	ruleCited      = regexp.MustCompile(`\b([A-Z]{2,5})-([0-9]+)\b`)
)

// A specification is the names under which the pages of doc/spec and their parts are cited.
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

// missingCitations returns the citations in a text that do not exist in the specification, and the number of all
// citations.
func (l specification) missingCitations(text string) (missing []string, all int) {
	for _, m := range sectionCited.FindAllStringSubmatch(text, -1) {
		if all++; !l.sections[m[1]+" "+m[2]] {
			missing = append(missing, m[0])
		}
	}
	for _, m := range ruleCited.FindAllStringSubmatch(text, -1) {
		if !l.rulePrefixes[m[1]] {
			continue // no rule: PMI-2, UTF-8
		}
		if all++; !l.sections[m[0]] {
			missing = append(missing, m[0])
		}
	}
	return missing, all
}

// Each rule and section that comments and pages of doc cite exists in doc/spec.
func TestCitationsOfTheSpecification(t *testing.T) {
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
	more, _ := filepath.Glob("doc/*/*.md") // decisions, the guide and the specification itself
	for _, file := range append(pages, more...) {
		check(file, strings.Join(strings.Fields(readText(t, file)), " "))
	}
	if cited < 100 {
		t.Errorf("only %d citations found: this test reads them wrongly", cited)
	}
}

// Each policy of --map-by is in the grammar.
func TestEveryMappingIsSpecified(t *testing.T) {
	_, rest, _ := strings.Cut(readText(t, "doc/spec/cli.md"), "\n### Mapping, ranking, binding\n")
	grammar, _, found := strings.Cut(rest, "    bind-to =")
	if !found {
		t.Fatal("doc/spec/cli.md has no grammar of mappings")
	}
	words := regexp.MustCompile(`[a-z0-9-]+`).FindAllString(strings.ReplaceAll(grammar, "[cache]", "cache"), -1)
	for _, choice := range (pin.Mapping{}).Choices() {
		if word := choice[:strings.IndexAny(choice+":", ":=")]; !slices.Contains(words, word) {
			t.Errorf("doc/spec/cli.md has no %s in its grammar of --map-by", word)
		}
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
