//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machineText returns a description of the machine, with the versions of the measured programs.
func machineText() string {
	var u unix.Utsname
	unix.Uname(&u)
	return fmt.Sprintf("%s; %d CPUs; Linux %s; %s; %s; %s.\nLoad average before: %s\n",
		cpuModel(), runtime.NumCPU(), unix.ByteSliceToString(u.Release[:]),
		firstLine("ssh", "-V"), "Hydra "+hydraVersion(), firstLine("mpirun.openmpi", "--version"), loadAverage())
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

func firstLine(name string, args ...string) string {
	out, _ := exec.Command(name, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

func hydraVersion() string {
	out, _ := exec.Command("mpiexec.hydra", "--version").Output()
	for line := range strings.Lines(string(out)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Version:"); ok {
			return strings.TrimSpace(version)
		}
	}
	return "of unknown version"
}
