package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var walkStop = regexp.MustCompile("(?m)^([0-9]+)\\. `([a-z0-9_/]+\\.go)` `([A-Za-z.]+)`")

// Each stop of the walks of doc/design.md is there, and no walk has more than twelve.
func TestWalks(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "doc/design.md"), "\n### Walks\n")
	walks, _, _ := strings.Cut(rest, "\n## ")
	stops := walkStop.FindAllStringSubmatch(walks, -1)
	if len(stops) < 40 {
		t.Fatalf("%d stops found in doc/design.md: this test reads it wrongly", len(stops))
	}
	for _, stop := range stops {
		if n, _ := strconv.Atoi(stop[1]); n > 12 {
			t.Errorf("stop %d of a walk, %s", n, stop[3])
		}
		name, receiver := stop[3], ""
		if typ, method, ok := strings.Cut(name, "."); ok {
			name, receiver = method, `\([a-z]+ \*?`+typ+`\) `
		}
		if !regexp.MustCompile(`(?m)^func ` + receiver + name + `\(`).MatchString(read(t, stop[2])) {
			t.Errorf("%s has no function %s", stop[2], stop[3])
		}
	}
}
