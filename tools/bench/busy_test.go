//go:build linux

package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"remshell/proc"
)

// The loops want the CPUs, as others than the launcher, and are gone when they are not
// wanted any more.
func TestLoopsAreBusyUntilTheyEnd(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := bench{self: exe}
	before := proc.Children()
	quiet, err := b.startBusyLoops(2)
	if err != nil {
		t.Fatal(err)
	}
	loops := slices.DeleteFunc(proc.Children(), func(pid int) bool { return slices.Contains(before, pid) })
	if len(loops) != 2 {
		t.Errorf("children %v, and before %v", loops, before)
	}
	for _, pid := range loops {
		for end := time.Now().Add(5 * time.Minute); ; {
			look, there := proc.ReadInfo(pid)
			if there && look.Session == pid && look.CPU > 50*time.Millisecond {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d is not busy: %+v", pid, look)
			}
		}
	}
	quiet()
	for _, pid := range loops {
		if _, there := proc.ReadInfo(pid); there {
			t.Errorf("%d is still there", pid)
		}
	}
}
