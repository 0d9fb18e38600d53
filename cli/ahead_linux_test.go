package cli

import (
	"testing"
	"time"
)

// Each later life of a job asks anew: what its machine was like when the first began may be days old.
func TestALookAheadIsTakenOnce(t *testing.T) {
	ahead := lookAhead(nil)
	if first, err := ahead(); err != nil || first.Hostname == "" {
		t.Fatalf("%q, %v", first.Hostname, err)
	}
	since := time.Now()
	second, err := ahead()
	if err != nil || second.Clock.Before(since) {
		t.Errorf("the second life is told what was seen at %v, before %v (%v)", second.Clock, since, err)
	}
}
