package pmiserver_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// elsewhere lists the cases of pmi-wire.md 7 that are not in testdata/pmi, and the tests for them.
var elsewhere = map[string]string{
	"29":  "package plan writes the mapping: plan, testdata/pmi/mapping.txt",
	"37":  "TestTranscripts plays every case byte by byte",
	"46a": "the supervisor knows the exit status: launch, TestStep",
	"46b": "the supervisor knows the exit status: launch, TestStep",
	"46c": "the supervisor knows the exit status: launch, TestStep",
}

// Each case of pmi-wire.md 7 is in testdata/pmi under its number, or in elsewhere.
// e2e.TestPMIConformance replays the cases that need no server of the test's own against the shipped
// program.
func TestConformance(t *testing.T) {
	played := make(map[string]bool)
	files, _ := filepath.Glob("../testdata/pmi/*.pmi")
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if title, ok := strings.CutPrefix(lines.Text(), "case "); ok {
				number, _, _ := strings.Cut(title, " ")
				played[number] = true
			}
		}
		f.Close()
	}
	want := []string{"46a", "46b", "46c"}
	for n := range 71 {
		want = append(want, fmt.Sprint(n+1))
	}
	for n := range 23 {
		want = append(want, fmt.Sprint("P", n+1))
	}
	for _, number := range want {
		if place := elsewhere[number]; played[number] == (place != "") {
			t.Errorf("case %s: played: %v; shown elsewhere: %q", number, played[number], place)
		}
	}
}
