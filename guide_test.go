package main

import (
	"strings"
	"testing"
)

// The C program on the page is the one that the tests run.
func TestProgramOfThreeDays(t *testing.T) {
	if !strings.Contains(readText(t, "doc/guide/long-runs.md"), "cat > steps.c <<'END'\n"+readText(t, "testdata/mpi/steps.c")+"END\n") {
		t.Error("the guide shows another program than testdata/mpi/steps.c")
	}
}
