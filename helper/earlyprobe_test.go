//go:build linux

package helper

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A helper reports a probe of the machine that began before it. NodeTime is the time of the report.
func TestAnEarlierProbeIsReported(t *testing.T) {
	near, far := wire.NewInProcess()
	defer near.Close()
	began := time.Now()
	old := began.Add(-time.Hour)
	go Serve(context.Background(), far, System{Root: fstest.MapFS{}, AwaitProbe: func() (job.Probe, error) {
		return job.Probe{Hostname: "seen", NodeTime: old}, nil
	}})
	conn := wire.NewConn(near, wire.Launcher)
	for {
		m, err := conn.Recv()
		if err != nil {
			t.Fatal(err)
		}
		node, ok := m.(*wire.NodeInfo)
		if !ok {
			continue
		}
		if node.Probe.Hostname != "seen" || node.Probe.NodeTime.Before(began) {
			t.Errorf("the helper tells of %q at %v, not of what was seen, now", node.Probe.Hostname, node.Probe.NodeTime)
		}
		return
	}
}
