//go:build linux

package main

import (
	"reflect"
	"testing"
)

// parseRounds returns the samples that a job printed, and rejects any other line.
func TestRoundsInAJob(t *testing.T) {
	sides, err := parseRounds("0 1000 20 4096\n1 3000 40 4096\n2 500 1 0\n0 2000 20 4096\n1 3000 40 4096\n2 500 1 0\n")
	want := []sample{{wall: 1000, cpu: 20, peak: 4096}, {wall: 2000, cpu: 20, peak: 4096}}
	if err != nil || !reflect.DeepEqual(sides[0], want) || len(sides[1]) != 2 || len(sides[2]) != 2 {
		t.Errorf("%v, %v", sides, err)
	}
	for _, wrong := range []string{"3 1 1 1\n", "srun: error\n", "-1 1 1 1\n", "0 1 1\n"} {
		if _, err := parseRounds(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
	lists := splitAt([]string{"a", "b", separatorArg, "c", separatorArg, "d", "e"}, separatorArg)
	if !reflect.DeepEqual(lists, [][]string{{"a", "b"}, {"c"}, {"d", "e"}}) {
		t.Error(lists)
	}
}
