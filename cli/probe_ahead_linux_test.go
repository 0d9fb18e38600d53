package cli

import (
	"testing"
	"time"
)

// An early probe is used by the first attempt only. Each later attempt probes again.
func TestAnEarlyProbeIsUsedOnce(t *testing.T) {
	probe := startLocalProbe(nil)
	if first, err := probe(); err != nil || first.Hostname == "" {
		t.Fatalf("%q, %v", first.Hostname, err)
	}
	since := time.Now()
	second, err := probe()
	if err != nil || second.NodeTime.Before(since) {
		t.Errorf("the second attempt gets the probe of %v, before %v (%v)", second.NodeTime, since, err)
	}
}
