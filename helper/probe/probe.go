//go:build linux

/*
Package probe describes this machine and its free resources. It finds CPUs, memory and GPUs, the identity of the
machine, the rules of its administrator, and the kernel's data about processes and connections. It only reads,
except for the marker files by which two helpers find out that they run on one machine.
*/
package probe

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/batch"
	"remshell/gpu"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// Node describes the hardware of this machine for planning. It reads /proc and /sys; root is "/". The result includes
// only CPUs in this process's affinity mask and cpuset (rule PLACE-5), and only GPUs that variables in environ, the
// helper's own environment, allow.
func Node(root fs.FS, environ []string) (job.Probe, error) {
	host, err := os.Hostname()
	if err != nil {
		return job.Probe{}, fmt.Errorf("host name: %w", err)
	}
	allowed, err := AllowedCPUs(root)
	if err != nil {
		return job.Probe{}, err
	}
	sys, err := fs.Sub(root, "sys")
	if err != nil {
		return job.Probe{}, err
	}
	topology, err := pin.ReadTopology(sys, allowed)
	if err != nil {
		return job.Probe{}, err
	}
	gpus, withheld := usableGPUs(root, environ)
	return job.Probe{
		Hostname:     host,
		Arch:         runtime.GOARCH,
		Kernel:       ReadLine(root, "proc/sys/kernel/osrelease"),
		Identity:     Identity(root),
		Topology:     topology,
		Load:         Load(root),
		Memory:       readMemory(root),
		NodeTime:     time.Now(),
		Model:        cpuType(root),
		GPUs:         gpus,
		WithheldGPUs: withheld,
		Fabric:       hasFabric(root),
		CPUQuota:     cpuQuota(root),
		Holder:       batchDaemonAbove(root, environ, os.Getppid()),
	}, nil
}

// batchDaemonAbove returns the name of the nearest process, among pid and its ancestors, that belongs to a batch system
// (rule RM-45). It returns "" if there is none. It searches only if environ contains a variable of a batch system.
func batchDaemonAbove(root fs.FS, environ []string, pid int) string {
	if !batch.MayHold(batch.Inputs{Env: job.Variables(environ)}) {
		return ""
	}
	const most = 64 // ancestors
	for range most {
		stat := ReadLine(root, fmt.Sprintf("proc/%d/stat", pid))
		open, shut := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
		if open < 0 || shut < open {
			return ""
		}
		if name := stat[open+1 : shut]; batch.Holds(name) {
			return name
		}
		fields := strings.Fields(stat[shut+1:])
		if len(fields) < 2 {
			return ""
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return ""
}

// hasFabric reports whether the node has a network that MPI uses without IP, such as InfiniBand (rule
// PMIX-13).
func hasFabric(root fs.FS) bool {
	return slices.ContainsFunc([]string{"infiniband", "cxi", "hsn"}, func(class string) bool {
		entries, _ := fs.ReadDir(root, "sys/class/"+class)
		return len(entries) > 0
	})
}

// usableGPUs returns the GPUs that ranks may use on this node, and the number of those that they may not use.
func usableGPUs(root fs.FS, environ []string) (usable []gpu.GPU, withheld int) {
	// access(2) also checks the device cgroup and, unlike open(2), does not wake
	// up a card.
	mayOpen := func(name string) bool { return unix.Access("/"+name, unix.R_OK|unix.W_OK) == nil }
	found := gpu.Read(root, mayOpen)
	usable = gpu.AllowedByEnv(found.GPUs, job.Variables(environ),
		func(g gpu.GPU) string { return gpu.UUID(root, g) })
	return usable, found.Withheld + len(found.GPUs) - len(usable)
}

// cpuType returns a text with the type of the CPUs and the number of their features, such as "x86,ven0000fam0006mod008F
// with 180 features". It parses the alias by which the kernel selects drivers:
// "cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001,...". It does not read /proc/cpuinfo, because opening that
// file takes 10 ms on some kernels.
func cpuType(root fs.FS) string {
	alias := strings.TrimPrefix(ReadLine(root, "sys/devices/system/cpu/modalias"), "cpu:type:")
	kind, features, _ := strings.Cut(alias, ":feature:")
	if kind == "" {
		return ""
	}
	return fmt.Sprintf("%s with %d features", kind, strings.Count(strings.Trim(features, ","), ",")+1)
}

// AllowedCPUs returns the online CPUs in the affinity mask of this process. It reads the mask from a text file, because
// Go's type for the system call is limited to 1,024 CPUs. The text may include CPUs that do not exist, especially in
// virtual machines, so AllowedCPUs keeps only those that are online.
func AllowedCPUs(root fs.FS) ([]int, error) {
	list, err := statusLine(root, "Cpus_allowed_list:")
	if err != nil {
		return nil, fmt.Errorf("CPU mask: %w", err)
	}
	allowed, err := pin.ParseCPUs(list)
	online, _ := pin.ParseCPUs(ReadLine(root, "sys/devices/system/cpu/online"))
	there := slices.DeleteFunc(slices.Clone(allowed), func(cpu int) bool { return !idset.Set(online).Has(cpu) })
	if len(there) == 0 { // the list of online CPUs is missing, or of another machine
		return allowed, err
	}
	return there, nil
}

// AllowedMemory returns the NUMA nodes from which this process may allocate memory, or nil if that is
// unknown.
func AllowedMemory(root fs.FS) []int {
	list, _ := statusLine(root, "Mems_allowed_list:")
	nodes, _ := pin.ParseCPUs(list)
	return nodes
}

// statusLine returns the value of a line in /proc/self/status. name is the first word of the line, with its
// colon.
func statusLine(root fs.FS, name string) (string, error) {
	status, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("no %s in /proc/self/status", strings.TrimSuffix(name, ":"))
}

// Identity returns a text that is equal for two helpers if and only if their ranks share one machine (rule
// HOST-8). That means one boot of one kernel, the same PID namespace, the same System V objects and the
// same /dev/shm. Containers that differ in one of these must not be treated as one node, because shared memory
// between them would not work.
func Identity(root fs.FS) string {
	parts := []string{ReadLine(root, "proc/sys/kernel/random/boot_id")}
	for _, space := range []string{"pid", "ipc"} {
		link, _ := os.Readlink("/proc/self/ns/" + space)
		parts = append(parts, link)
	}
	var shm unix.Stat_t
	if unix.Stat("/dev/shm", &shm) == nil {
		parts = append(parts, strconv.FormatUint(uint64(shm.Dev), 10))
	}
	return strings.Join(parts, " ")
}

// Load returns the load averages of the last 1, 5 and 15 minutes. A value that is unknown is -1.
func Load(root fs.FS) [3]float64 { return parseLoad(ReadLine(root, "proc/loadavg")) }

// parseLoad parses the line of /proc/loadavg. A value that cannot be parsed is -1, which means unknown.
func parseLoad(line string) [3]float64 {
	result := [3]float64{-1, -1, -1}
	fields := strings.Fields(line)
	for i := range min(len(result), len(fields)) {
		if load, err := strconv.ParseFloat(fields[i], 64); err == nil {
			result[i] = load
		}
	}
	return result
}

// readMemory parses /proc/meminfo. Missing values are 0, which means unknown; MemAvailable is missing before
// Linux 3.14. If there are no lines about huge pages, the kernel was built without them.
func readMemory(root fs.FS) (m job.Memory) {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, err := strconv.ParseInt(number, 10, 50)
		if err != nil || n < 0 {
			continue
		}
		switch name + " " + strings.TrimSpace(unit) {
		case "MemTotal kB":
			m.Total, m.HugePages.Probed = n<<10, true
		case "MemAvailable kB":
			m.Available = n << 10
		case "HugePages_Total ":
			m.HugePages.Total = n
		case "HugePages_Free ":
			m.HugePages.Free = n
		case "Hugepagesize kB":
			m.HugePages.Size = n << 10
		}
	}
	if m.HugePages.Size == 0 {
		m.HugePages.Total, m.HugePages.Free = 0, 0
	}
	return m
}

// TotalMemory returns the memory of this machine in bytes, or 0 if unknown.
func TotalMemory(root fs.FS) int64 { return readMemory(root).Total }

// ReadLine returns the first line of a file, or "" if it cannot be read.
func ReadLine(root fs.FS, name string) string {
	text, _ := fs.ReadFile(root, name)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
