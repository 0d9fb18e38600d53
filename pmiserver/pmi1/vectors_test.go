package pmi1

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Each request of the table is in a conversation of testdata/pmi, which the shipped program replays
// too (e2e.TestPMIConformance).
func TestEveryRequestHasAVector(t *testing.T) {
	files, err := filepath.Glob("../../testdata/pmi/*.pmi")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	sent := make(map[string]bool)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\S*\d<<? cmd=([a-z0-9_]+)`).FindAllSubmatch(text, -1) {
			sent[string(m[1])] = true
		}
	}
	for name := range requests {
		if !sent[name] {
			t.Errorf("%s: no vector", name)
		}
	}
}
