package hostlist

import (
	"strings"
	"testing"
)

// lineFormatOf returns the launchers whose format reads a line.
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

// Each line is read in one format, also if others could read it.
func TestLineFormats(t *testing.T) {
	others := lineFormats()[len(lineFormats())-1].usedBy
	for line, want := range map[string]string{
		"!include more.hosts": "ours", "  !x": "ours", "!": "ours",

		"node1 4 all.q@node1 UNDEFINED": "Grid Engine", "\tnode1 4": "Grid Engine", "node1 4#": "Grid Engine",
		"n[1-2] 4":         "Grid Engine", // bracket expressions, though Grid Engine writes one host
		"n1 4 n2":          "Grid Engine", // not three hosts
		"n1 4,n2":          "Grid Engine", // the second word is not a host called 4
		"n1 slots = 4 4 q": "Grid Engine", // with two slot counts
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

// Every line has a format. Lines that no other format matches are read in the last one.
func TestEveryLineHasAFormat(t *testing.T) {
	all := lineFormats()
	for i, d := range all {
		if last := i == len(all)-1; (d.matches == nil) != last {
			t.Errorf("%s: takes any line %t, is the last %t", d.usedBy, d.matches == nil, last)
		}
		if d.usedBy == "" || d.syntax == "" || d.read == nil {
			t.Errorf("format %d: %q, %q", i, d.usedBy, d.syntax)
		}
	}
}

// Lines of the example files, one for each launcher of cli.md, are read in the launcher's format.
func TestFormatsOfTheStyles(t *testing.T) {
	for _, s := range readFileCases(t, "styles.txt") {
		for line := range strings.Lines(s.file) {
			line = strings.TrimRight(line, "\r\n")
			if by := lineFormatOf(line); strings.Contains(s.title, "Grid Engine") != (by == "Grid Engine") && strings.TrimSpace(line) != "" {
				t.Errorf("%s: %q is read as one of %s", s.title, line, by)
			}
		}
	}
}
