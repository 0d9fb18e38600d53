//go:build linux

package main

import "testing"

// A launch with hosts of its own ends well.
func TestLaunchCrowd(t *testing.T) {
	if code := launchFakeHosts([]string{"3"}); code != 0 {
		t.Errorf("code %d", code)
	}
}
