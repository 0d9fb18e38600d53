//go:build linux

// Package cgrouptest makes control groups (cgroups(7)) for tests of what a node does to processes that have too much.
package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// MemoryGroup makes a group that may have so many bytes, and no swap. The test is skipped where that cannot be done.
func MemoryGroup(t *testing.T, most int) (dir string) {
	t.Helper()
	bytes := fmt.Sprint(most)
	return makeGroup(t, "memory",
		[]setting{{"memory.max", bytes, true}, {"memory.swap.max", "0", false}},
		[]setting{{"memory.limit_in_bytes", bytes, true}, {"memory.memsw.limit_in_bytes", bytes, false}})
}

// PIDsGroup makes a group that may have so many processes and threads.
func PIDsGroup(t *testing.T, most int) (dir string) {
	t.Helper()
	same := []setting{{"pids.max", fmt.Sprint(most), true}}
	return makeGroup(t, "pids", same, same)
}

// EnterCommand is the words of a command that enters a group and then is another command, whose words follow.
func EnterCommand(dir string) []string {
	return []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir}
}

// A setting is a file of a group. One that is not needed is missing on kernels that do not count swap.
type setting struct {
	file, value string
	needed      bool
}

// makeGroup makes a group in the hierarchy of a controller: in version 2 of control groups, or else in version 1.
func makeGroup(t *testing.T, controller string, v2, v1 []setting) string {
	t.Helper()
	var failed []error
	for _, kind := range []struct {
		top      string
		settings []setting
	}{{"/sys/fs/cgroup", v2}, {"/sys/fs/cgroup/" + controller, v1}} {
		dir, err := os.MkdirTemp(kind.top, "remshell-test-")
		if err == nil {
			err = writeSettings(dir, kind.settings)
		}
		if err == nil {
			t.Cleanup(func() { removeGroup(t, dir) })
			return dir
		}
		os.Remove(dir)
		failed = append(failed, err)
	}
	t.Skipf("no control group for %s can be made here: %v", controller, errors.Join(failed...))
	return ""
}

// writeSettings writes files that the kernel has made.
func writeSettings(dir string, settings []setting) error {
	for _, s := range settings {
		file, err := os.OpenFile(filepath.Join(dir, s.file), os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString(s.value)
			file.Close()
		}
		if err != nil && s.needed {
			return err
		}
	}
	return nil
}

// removeGroup removes a group when its last process is gone.
func removeGroup(t *testing.T, dir string) {
	var err error
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = os.Remove(dir); err == nil {
			return
		}
	}
	t.Error(err)
}
