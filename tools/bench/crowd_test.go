//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestCrowdTable(t *testing.T) {
	few := crowdRow{crowdCase{100, 1}, []sample{{wall: 50 * time.Millisecond, cpu: 100 * time.Millisecond, peak: 20 << 20}}}
	many := crowdRow{crowdCase{10_000, 1}, []sample{{wall: 6 * time.Second, cpu: 12 * time.Second, peak: 1 << 30}}}
	got := crowdTable([]crowdRow{few, many})
	for _, want := range []string{
		"| launch, 10000 hosts in one process | 640000 | 6000 (6000) | 12000 (12000) | 1024 | 1200 | 104 |\n",
		"- 10000 hosts: 6000 ms; goal at most 5000 ms: MISSED\n",
		"- 10000 hosts: 1024 MiB; goal at most 1024 MiB: reached\n",
		"- CPU of each of them to each of 100: 1.20; goal at most 1.5: reached\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line\n%sin\n%s", want, got)
		}
	}
}

// A launch with hosts of its own ends well.
func TestLaunchCrowd(t *testing.T) {
	if code := launchCrowd([]string{"3"}); code != 0 {
		t.Errorf("code %d", code)
	}
}
