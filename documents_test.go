package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each link from a document to a file of this repository, and to a heading there, leads somewhere.
func TestLinksOfDocuments(t *testing.T) {
	documents, err := filepath.Glob("doc/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob("doc/*.md")
	documents = append(append(documents, pages...), "README.md", "CHANGELOG.md")
	followed := 0
	for _, document := range documents {
		for _, link := range linksOf(readText(t, document)) {
			file, heading, hasHeading := strings.Cut(link, "#")
			path := document
			if file != "" {
				path = filepath.Join(filepath.Dir(document), file)
			}
			followed++
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, link)
			} else if hasHeading && filepath.Ext(path) == ".md" && !anchorsOf(readText(t, path))[heading] {
				t.Errorf("%s links to %s, and there is no such heading", document, link)
			}
		}
	}
	if followed < 50 {
		t.Errorf("only %d links found: this test reads them wrongly", followed)
	}
}

// Links to what exists, to what does not, and what is no link.
func TestLinksAndAnchors(t *testing.T) {
	text := "# A page\n\n## `--x`, and Y\n\n## A page\n\n[a](b.md#c) and [d](https://e) and `[f](g)`\n\n```\n# no heading\n[h](i)\n```\n"
	if got := fmt.Sprint(linksOf(text)); got != "[b.md#c]" {
		t.Errorf("links %s", got)
	}
	if got := fmt.Sprint(anchorsOf(text)); got != "map[--x-and-y:true a-page:true a-page-1:true]" {
		t.Errorf("anchors %s", got)
	}
}

var (
	codeBlock = regexp.MustCompile("(?sm)^```.*?^```$")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	inlineURL = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headline  = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	noAnchor  = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// linksOf returns the links of a document, apart from those to other sites.
func linksOf(text string) (links []string) {
	text = codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
	for _, link := range inlineURL.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(link[1], "://") {
			links = append(links, link[1])
		}
	}
	return links
}

// anchorsOf returns the names by which links call the headings of a document, as GitHub makes them.
func anchorsOf(text string) map[string]bool {
	anchors := make(map[string]bool)
	for _, heading := range headline.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		anchor := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-")
		name := anchor
		for i := 1; anchors[name]; i++ {
			name = fmt.Sprintf("%s-%d", anchor, i)
		}
		anchors[name] = true
	}
	return anchors
}
