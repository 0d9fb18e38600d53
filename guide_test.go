package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// survivalChapter returns the page of the guide on jobs that survive failures.
func survivalChapter(t *testing.T) string {
	return readText(t, "doc/guide/long-runs.md")
}

// Each message of mpiexec on the page is one that tests check: a pattern of a script's standard error, or a text in
// the tests of lost hosts.
func TestWordsOfThreeDays(t *testing.T) {
	var patterns []*regexp.Regexp
	for _, name := range []string{"restart", "resume", "checkpoint"} {
		for _, m := range regexp.MustCompile(`(?m)^(?:stderr|grep) (?:-count=\d+ )?'(.{20,})'(?: \w+)?$`).FindAllStringSubmatch(readText(t, "testdata/script/"+name+".txtar"), -1) {
			patterns = append(patterns, regexp.MustCompile("(?m)"+m[1]))
		}
	}
	texts, _ := filepath.Glob("test/e2e/re*_test.go")
	for _, file := range append(texts, "launch/restart/restart.go", "launch/restart/move.go", "test/e2e/migrate_test.go") {
		for _, m := range regexp.MustCompile(`"((?:[^"\\\n]|\\.){20,})"`).FindAllStringSubmatch(readText(t, file), -1) {
			patterns = append(patterns, regexp.MustCompile(regexp.QuoteMeta(m[1])))
		}
	}
	shown := 0
	chapter := strings.ReplaceAll(survivalChapter(t), "\n      hint: ", "\\n  hint: ") // on one line, as in a pattern
	for line := range strings.Lines(chapter) {
		words, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !indented || !strings.HasPrefix(words, "mpiexec: ") {
			continue
		}
		shown++
		words = strings.ReplaceAll(words, `\n`, "\n")
		seen := false
		for _, p := range patterns {
			seen = seen || p.MatchString(words)
		}
		if !seen {
			t.Errorf("no test sees this line of the guide:\n%s", words)
		}
	}
	if shown < 8 {
		t.Errorf("only %d lines found: this test reads the guide wrongly", shown)
	}
}

// The C program on the page is the one that the tests run.
func TestProgramOfThreeDays(t *testing.T) {
	if !strings.Contains(survivalChapter(t), "cat > steps.c <<'END'\n"+readText(t, "testdata/mpi/steps.c")+"END\n") {
		t.Error("the guide shows another program than testdata/mpi/steps.c")
	}
}
