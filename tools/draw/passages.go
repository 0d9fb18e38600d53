package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// sentenceEnd matches the end of a sentence, or of a clause that ends with a colon. It need not handle abbreviations
// such as "e.g.", which the documents do not use.
var sentenceEnd = regexp.MustCompile(`[.!?:]["')]*(\s|$)`)

// minSentences is the minimum number of sentences in a passage, which is a paragraph or a list.
const minSentences = 3

// collectPassages returns the passages of README.md and of doc/, except passages of generated files.
func collectPassages(repo fs.FS) (found []sample, err error) {
	err = fs.WalkDir(repo, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && name != "doc" && !strings.HasPrefix(name, "doc/") {
				return fs.SkipDir
			}
			return nil
		}
		if name != "README.md" && (path.Ext(name) != ".md" || !strings.HasPrefix(name, "doc/")) || name == "doc/options.md" {
			return nil
		}
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		found = append(found, passagesOf(name, string(text))...)
		return nil
	})
	return found, err
}

// passagesOf returns the passages of a Markdown text, each below the headings of its section. It ignores tables, code
// and indented drawings.
func passagesOf(name, text string) (found []sample) {
	var block, headings []string
	var levels []int // of headings
	first, fenced := 0, false
	end := func() {
		joined := strings.Join(block, "\n")
		if len(sentenceEnd.FindAllString(joined, -1)) >= minSentences {
			found = append(found, sample{fmt.Sprintf("%s:%d", name, first), "[" + strings.Join(headings, " > ") + "]\n" + joined})
		}
		block = nil
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			end()
		case fenced, strings.TrimSpace(line) == "", strings.HasPrefix(line, "|"):
			end()
		case strings.HasPrefix(line, "#"):
			end()
			title := strings.TrimLeft(line, "#")
			level := len(line) - len(title)
			above := len(levels)
			for above > 0 && levels[above-1] >= level {
				above--
			}
			headings, levels = append(headings[:above], strings.TrimSpace(title)), append(levels[:above], level)
		case len(block) == 0 && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")):
		default:
			if len(block) == 0 {
				first = i + 1
			}
			block = append(block, line)
		}
	}
	end()
	return found
}
