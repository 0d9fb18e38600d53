//go:build linux

package cleanipc

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/launch/launchtest"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// The shared memory of a rank that is killed is freed; with "no" it stays. mpiexec is told of it.
func TestSharedMemoryOfAKilledRank(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip(err)
	}
	launchtest.RecordJobs(t, "IPCCleaned", func(s launchtest.Recording) {
		if segment := leaveSegment(s); isThere(segment) {
			t.Errorf("segment %d is still there", segment)
		}
	})
	launchtest.RecordJobs(t, "", func(s launchtest.Recording) {
		segment := leaveSegment(s, &Policy{never})
		if !isThere(segment) {
			t.Errorf("segment %d was freed", segment)
		}
		unix.SysvShmCtl(segment, unix.IPC_RMID, nil)
		if strings.Contains(s.Recorder.Recorded(), "IPCCleaned") {
			t.Errorf("a report of what was not freed:\n%s", s.Recorder.Recorded())
		}
	})
}

// leaveSegment runs a rank that creates a segment and is killed, and returns the segment.
func leaveSegment(s launchtest.Recording, settings ...wire.Setting) int {
	r := launchtest.NewRun(1, `exec perl -e '$| = 1; $id = shmget(0, 4096, 0600) // die $!; print "segment $id\n"; kill 9, $$'`, "a")
	r.Settings = settings
	s.MustExit(r, 137)
	id, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(r.Out.String(), "segment ")))
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// isThere reports whether a segment exists.
func isThere(segment int) bool {
	_, err := unix.SysvShmCtl(segment, unix.IPC_STAT, new(unix.SysvShmDesc))
	return err == nil
}
