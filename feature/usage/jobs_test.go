//go:build linux

package usage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remshell/launch/launchtest"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// Helpers send samples of a job that wants them.
func TestSamplesAreSent(t *testing.T) {
	launchtest.RecordJobs(t, "SampledUsage", func(s launchtest.Recording) {
		seen := filepath.Join(s.TempDir(), "seen")
		r := launchtest.NewRun(1, "until test -e "+seen+"; do sleep 0.05; done", "a")
		r.Settings = []wire.Setting{new(Sampling)}
		over := make(chan struct{})
		go func() {
			for !strings.Contains(s.Recorder.Log.String(), "< SampledUsage") {
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
			os.WriteFile(seen, nil, 0o600)
		}()
		s.MustExit(r, 0)
		close(over)
	})
}

// A job that exceeds a limit of a node's own ends.
func TestLimitOfTheNodeEndsTheJob(t *testing.T) {
	launchtest.RecordJobs(t, "LimitExceeded", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "exec sleep 600", "narrow")
		s.MustExit(r, 124)
		if said := r.Err.String(); !strings.Contains(said, "=>> mpiexec: job killed: vmem ") || !strings.Contains(said, " exceeded limit 4096 on host narrow\n") {
			t.Errorf("stderr %q", said)
		}
	})
}
