package cli

import (
	"testing"
	"time"
)

// Each later life of a job asks anew: what its machine was like when the first began may be days old.
func TestALookAheadIsTakenOnce(t *testing.T) {
	ahead := startLocalProbe(nil)
	if first, err := ahead(); err != nil || first.Hostname == "" {
		t.Fatalf("%q, %v", first.Hostname, err)
	}
	since := time.Now()
	second, err := ahead()
	if err != nil || second.NodeTime.Before(since) {
		t.Errorf("the second life is told what was seen at %v, before %v (%v)", second.NodeTime, since, err)
	}
}
