//go:build linux

package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"remshell/proc"
)

// The loops use CPU time in sessions of their own, and have ended when stop returns.
func TestLoopsAreBusyUntilTheyEnd(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := bench{self: exe}
	before := proc.Children()
	stop, err := b.startBusyLoops(2)
	if err != nil {
		t.Fatal(err)
	}
	loops := slices.DeleteFunc(proc.Children(), func(pid int) bool { return slices.Contains(before, pid) })
	if len(loops) != 2 {
		t.Errorf("children %v, and before %v", loops, before)
	}
	for _, pid := range loops {
		for end := time.Now().Add(5 * time.Minute); ; {
			info, exists := proc.ReadInfo(pid)
			if exists && info.Session == pid && info.CPU > 50*time.Millisecond {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d is not busy: %+v", pid, info)
			}
		}
	}
	stop()
	for _, pid := range loops {
		if _, exists := proc.ReadInfo(pid); exists {
			t.Errorf("%d is still there", pid)
		}
	}
}
