//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A quote is output of a program that a page of the guide shows: lines that are indented by four blanks, or the code in the
// first column of a table under "you see". The commands that make the output are the boxes of the page and those of
// testdata/guide, which readers do not see.
//
// A line of a quote matches a line of the output. Runs of blanks, clock times (01:02:03) and decimal numbers (1.5) match any
// others, and 4711 any word. "..." matches any text, and on a line of its own any lines. The file in testdata/guide lists more
// words that vary, in lines that begin with "vary:".
type quote struct {
	line  int // of the page
	lines []string
	part  bool // of a line: in a table
}

// parseQuotes returns the quotes on a page.
func parseQuotes(text string) (all []quote) {
	box, table := false, false
	var open *quote
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			box = !box
		}
		words, indented := strings.CutPrefix(line, "    ")
		if box || !indented {
			open = nil
		}
		cells := strings.Split(line, "|")
		switch {
		case box:
		case indented && open == nil:
			all = append(all, quote{line: i + 1, lines: []string{words}})
			open = &all[len(all)-1]
		case indented:
			open.lines = append(open.lines, words)
		case len(cells) < 3:
			table = false
		case strings.TrimSpace(cells[1]) == "you see":
			table = true
		case table:
			for _, code := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
				all = append(all, quote{line: i + 1, lines: []string{code[1]}, part: true})
			}
		}
	}
	return all
}

var (
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	clockTime = regexp.MustCompile(`\d+:\d\d:\d\d(?:\\\.\d+)?`)
	decimal   = regexp.MustCompile(`\d+\\\.\d+`)
	blanks    = regexp.MustCompile(` +`)
)

// pattern returns what a line of output must match to be the line of a quote.
func pattern(line string, part bool, vary []string) *regexp.Regexp {
	p := regexp.QuoteMeta(line)
	p = strings.ReplaceAll(p, `\.\.\.`, `.*`)
	p = clockTime.ReplaceAllLiteralString(p, `\d+:\d\d:\d\d(?:\.\d+)?`)
	p = decimal.ReplaceAllLiteralString(p, `\d+(?:\.\d+)?(?:e[-+]\d+)?`)
	for _, word := range append(vary[:len(vary):len(vary)], "4711") {
		p = regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(regexp.QuoteMeta(word))+`($|\W)`).ReplaceAllString(p, `$1\S+$2`)
	}
	p = blanks.ReplaceAllLiteralString(p, ` +`)
	if !part {
		p = `^` + p + ` *$`
	}
	return regexp.MustCompile(p)
}

// isIn reports whether the output has the lines of the quote, one below the other.
func (q quote) isIn(output string, vary []string) bool {
	lines := strings.Split(output, "\n")
	for from := range lines {
		if matchLines(q, q.lines, lines[from:], vary) {
			return true
		}
	}
	return false
}

func matchLines(q quote, want, lines []string, vary []string) bool {
	switch {
	case len(want) == 0:
		return true
	case want[0] == "...":
		for from := range lines {
			if matchLines(q, want[1:], lines[from:], vary) {
				return true
			}
		}
		return len(want) == 1
	}
	return len(lines) > 0 && pattern(want[0], q.part, vary).MatchString(lines[0]) && matchLines(q, want[1:], lines[1:], vary)
}

// altered returns the quote with one letter or digit of a line replaced, so that nothing can match it.
func (q quote) altered(line int) quote {
	q.lines = append([]string(nil), q.lines...)
	q.lines[line] = regexp.MustCompile(`[\pL\d]`).ReplaceAllString(q.lines[line], "#")
	return q
}

// checkQuotes fails the test if a quote of a page is in none of the outputs, or if it would match anything.
func checkQuotes(t *testing.T, page string, outputs, vary []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot, "doc/guide", page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	isIn := func(q quote) bool {
		for _, output := range outputs {
			if q.isIn(output, vary) {
				return true
			}
		}
		return false
	}
	for _, q := range parseQuotes(string(text)) {
		if !isIn(q) {
			t.Errorf("doc/guide/%s.md:%d: no command of the page prints this:\n%s", page, q.line, strings.Join(q.lines, "\n"))
			continue
		}
		for i, line := range q.lines {
			if line != "..." && isIn(q.altered(i)) {
				t.Errorf("doc/guide/%s.md:%d: anything matches %q", page, q.line, line)
			}
		}
	}
}

// readHidden returns the boxes in testdata/guide that make what a page quotes, and the words that vary. Both are empty if
// there is no file for the page.
func readHidden(t *testing.T, page string) (boxes []guideBox, vary []string) {
	t.Helper()
	file := "testdata/guide/" + page + ".md"
	text, err := os.ReadFile(filepath.Join(repoRoot, file))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	boxes = parseBoxes(file, string(text))
	for line := range strings.Lines(string(text)) {
		if words, ok := strings.CutPrefix(line, "vary: "); ok {
			vary = append(vary, strings.Fields(words)...)
		}
	}
	return boxes, vary
}

func TestQuotes(t *testing.T) {
	const page = "# Page\n\n    mpiexec: n1: no\n      hint: yes\n\ntext\n\n```sh\n    in a box\n```\n\n| you see | do |\n|---|---|\n| `a b`, `c` | `d` |\n\n| x | y |\n|---|---|\n| `e` | f |\n"
	var got []string
	for _, q := range parseQuotes(page) {
		got = append(got, strings.Join(q.lines, "/"))
	}
	if want := "mpiexec: n1: no/  hint: yes|a b|c"; strings.Join(got, "|") != want {
		t.Errorf("quotes %q, want %q", got, want)
	}
	const output = "first\nmpiexec: job 17 waited 00:00:06 for 1.25 s\n  hint: add --wait\nlast one\n"
	for _, test := range []struct {
		text string
		part bool
		want bool
	}{
		{"mpiexec: job 17 waited 00:00:06 for 1.25 s", false, true},
		{"mpiexec: job 17 waited 01:10:59 for 3.5 s\n  hint: add --wait", false, true},
		{"mpiexec: job 18 waited 00:00:06 for 1.25 s", false, false},
		{"mpiexec: job 17 waited 00:00:06 for 1.25 min", false, false},
		{"mpiexec: job 17", false, false},
		{"job 17", true, true},
		{"job 18", true, false},
		{"mpiexec: ... s", false, true},
		{"first\n  hint: add --wait", false, false},
		{"first\n...\nlast one", false, true},
		{"last one\n...\nfirst", false, false},
		{"number 99", true, false},
		{"job 99", true, true}, // 99 varies
		{"hint: add --weit", true, false},
	} {
		q := quote{lines: strings.Split(test.text, "\n"), part: test.part}
		if got := q.isIn(output, []string{"99"}); got != test.want {
			t.Errorf("%q: %v, want %v", test.text, got, test.want)
		}
	}
}
