//go:build linux

// Package cgrouptest creates control groups (cgroups(7)) for tests of processes that exceed a limit.
package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// MemoryGroup creates a control group whose processes may use most bytes of memory in total, and no swap. It skips
// the test if it cannot create the group. dir is the group's directory.
func MemoryGroup(t *testing.T, most int) (dir string) {
	t.Helper()
	bytes := fmt.Sprint(most)
	return makeGroup(t, "memory",
		[]setting{{"memory.max", bytes, true}, {"memory.swap.max", "0", false}},
		[]setting{{"memory.limit_in_bytes", bytes, true}, {"memory.memsw.limit_in_bytes", bytes, false}})
}

// PausingMemoryGroup creates a control group whose processes wait when they use more than most bytes of memory together.
func PausingMemoryGroup(t *testing.T, most int) (dir string) {
	t.Helper()
	bytes := fmt.Sprint(most)
	return makeGroup(t, "memory", []setting{{"memory.high", bytes, true}}, []setting{{"memory.oom_control", "1", true}, {"memory.limit_in_bytes", bytes, true}})
}

// PIDsGroup creates a control group that may have most processes and threads in total. It skips the test if it cannot
// create the group. dir is the group's directory.
func PIDsGroup(t *testing.T, most int) (dir string) {
	t.Helper()
	same := []setting{{"pids.max", fmt.Sprint(most), true}}
	return makeGroup(t, "pids", same, same)
}

// EnterCommand returns the first words of a command line. The command moves itself into the control group dir, and
// then executes the command whose words the caller appends.
func EnterCommand(dir string) []string {
	return []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir}
}

// A setting is a file of a control group with its value. If needed is false, the file may be missing: some kernels do
// not count swap.
type setting struct {
	file, value string
	needed      bool
}

// makeGroup creates a control group in the hierarchy of a controller. It tries version 2 of control groups first,
// then version 1.
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

// writeSettings writes values to files of a control group.
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

// removeGroup removes a control group when its last process has ended.
func removeGroup(t *testing.T, dir string) {
	var err error
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = os.Remove(dir); err == nil {
			return
		}
	}
	t.Error(err)
}
