package hostlist

import (
	"strings"
	"testing"
)

// lineFormatOf is the dialect that reads a line.
func lineFormatOf(line string) string {
	c := cursor{sourceLine: sourceLine{text: line}}
	c.skipBlanks()
	for _, d := range lineFormats() {
		if d.matches == nil || d.matches(c) {
			return d.usedBy
		}
	}
	return ""
}

// Each line is read in one dialect, also where it could be one of another.
func TestDialects(t *testing.T) {
	others := lineFormats()[len(lineFormats())-1].usedBy
	for line, want := range map[string]string{
		"!include more.hosts": "ours", "  !x": "ours", "!": "ours",

		"node1 4 all.q@node1 UNDEFINED": "Grid Engine", "\tnode1 4": "Grid Engine", "node1 4#": "Grid Engine",
		"n[1-2] 4":         "Grid Engine", // hosts of which it writes one
		"n1 4 n2":          "Grid Engine", // not three hosts
		"n1 4,n2":          "Grid Engine", // nor is the second one called 4
		"n1 slots = 4 4 q": "Grid Engine", // with a slot count too many
		"^n1 4":            "Grid Engine",
		"n1:2 0":           "Grid Engine",

		"node1": others, "n1 n2 4": others, "n1, 4": others, "n1 ,4": others, "n1 4=x": others, "n1 = 4": others, "= 4": others,
		"n1 slots=4": others, "n1 type=\"x 4": others, "n1 # 4": others, "n1:4:alice:fe80::4": others, "": others, "# 4": others, "4": others, ", 4": others,
	} {
		if got := lineFormatOf(line); got != want {
			t.Errorf("%q is a line of %s, want %s", line, got, want)
		}
	}
}

// Every line is in a dialect, and the last is the only one that takes what the others do not.
func TestDialectsTakeEveryLine(t *testing.T) {
	all := lineFormats()
	for i, d := range all {
		if last := i == len(all)-1; (d.matches == nil) != last {
			t.Errorf("%s: takes any line %t, is the last %t", d.usedBy, d.matches == nil, last)
		}
		if d.usedBy == "" || d.syntax == "" || d.read == nil {
			t.Errorf("dialect %d: %q, %q", i, d.usedBy, d.syntax)
		}
	}
}

// Each launcher whose files the page says that we take has its dialect.
func TestDialectsAreThoseOfTheStyles(t *testing.T) {
	for _, s := range readFileCases(t, "styles.txt") {
		for line := range strings.Lines(s.file) {
			line = strings.TrimRight(line, "\r\n")
			if by := lineFormatOf(line); strings.Contains(s.title, "Grid Engine") != (by == "Grid Engine") && strings.TrimSpace(line) != "" {
				t.Errorf("%s: %q is read as one of %s", s.title, line, by)
			}
		}
	}
}
