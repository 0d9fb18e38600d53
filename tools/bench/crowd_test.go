//go:build linux

package main

import "testing"

// A launch on three simulated hosts succeeds.
func TestLaunchFakeHosts(t *testing.T) {
	if code := launchFakeHosts([]string{"3"}); code != 0 {
		t.Errorf("code %d", code)
	}
}
