//go:build linux

/*
Package probe tells what this machine has and what of it is free: its CPUs, memory and GPUs,
which machine it is, what its administrator lets run, and what its kernel knows of processes
and connections. It looks and changes nothing, but for the marks by which two helpers find
out that they are on one machine.
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

// Node reads from /proc and /sys what a plan must know of this machine. root is
// "/". The CPUs that count are those this process may use: its mask and cpuset
// bound everything (PLACE-5). So do, for GPUs, the variables of environ, which is its own.
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
	gpus, barred := usableGPUs(root, environ)
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
		WithheldGPUs: barred,
		Fabric:       hasFabric(root),
		CPUQuota:     cpuQuota(root),
		Holder:       batchDaemonAbove(root, environ, os.Getppid()),
	}, nil
}

// batchDaemonAbove finds the process of a batch system's above one (RM-45). Nobody looks where nothing tells of a batch system.
func batchDaemonAbove(root fs.FS, environ []string, pid int) string {
	if !batch.MayHold(batch.World{Env: job.Variables(environ)}) {
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

// hasFabric reports whether there is a network beside those of IP (PMIX-13).
func hasFabric(root fs.FS) bool {
	return slices.ContainsFunc([]string{"infiniband", "cxi", "hsn"}, func(class string) bool {
		entries, _ := fs.ReadDir(root, "sys/class/"+class)
		return len(entries) > 0
	})
}

// usableGPUs finds the GPUs that ranks may use here, and how many they may not.
func usableGPUs(root fs.FS, environ []string) (usable []gpu.GPU, barred int) {
	// access(2) asks the control groups of devices, too, and does not wake a card up as
	// open(2) would.
	mayOpen := func(name string) bool { return unix.Access("/"+name, unix.R_OK|unix.W_OK) == nil }
	found := gpu.Read(root, mayOpen)
	usable = gpu.AllowedByEnv(found.GPUs, job.Variables(environ),
		func(g gpu.GPU) string { return gpu.UUID(root, g) })
	return usable, found.Withheld + len(found.GPUs) - len(usable)
}

// cpuType tells the type of the CPUs and how many features they have, by the name under
// which the kernel loads drivers for them: "cpu:type:x86,ven0000fam0006mod008F:feature:,
// 0000,0001,...". (/proc/cpuinfo would do, but to open it takes 10 ms on some kernels, in
// which they measure how fast the CPUs run.)
func cpuType(root fs.FS) string {
	alias := strings.TrimPrefix(ReadLine(root, "sys/devices/system/cpu/modalias"), "cpu:type:")
	kind, features, _ := strings.Cut(alias, ":feature:")
	if kind == "" {
		return ""
	}
	return fmt.Sprintf("%s with %d features", kind, strings.Count(strings.Trim(features, ","), ",")+1)
}

// AllowedCPUs reads the mask of this process as text: no machine has too many CPUs
// for that, while the fixed set of the system call ends at 1,024. Unlike that call the text
// names CPUs that there are not, too: a virtual machine may have room for many more than it has.
func AllowedCPUs(root fs.FS) ([]int, error) {
	list, err := statusLine(root, "Cpus_allowed_list:")
	if err != nil {
		return nil, fmt.Errorf("CPU mask: %w", err)
	}
	allowed, err := pin.ParseCPUs(list)
	online, _ := pin.ParseCPUs(ReadLine(root, "sys/devices/system/cpu/online"))
	there := slices.DeleteFunc(slices.Clone(allowed), func(cpu int) bool { return !idset.Set(online).Has(cpu) })
	if len(there) == 0 { // online tells of another machine, or nothing
		return allowed, err
	}
	return there, nil
}

// AllowedMemory lists the NUMA nodes from which this process may have memory; nil if
// that cannot be read.
func AllowedMemory(root fs.FS) []int {
	list, _ := statusLine(root, "Mems_allowed_list:")
	nodes, _ := pin.ParseCPUs(list)
	return nodes
}

// statusLine is what /proc/self/status says under a name, which ends with a colon.
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

// Identity is equal on two helpers exactly if their ranks share one machine: one
// boot of one kernel, the same processes, the same System V objects and the same
// /dev/shm (HOST-8). Containers of one machine differ in these, and so may not
// pass for one node: a wrong "same node" breaks shared memory.
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

// Load reads the load of the last 1, 5 and 15 minutes; what cannot be read is -1, unknown.
func Load(root fs.FS) [3]float64 { return parseLoad(ReadLine(root, "proc/loadavg")) }

// parseLoad reads the line of /proc/loadavg; what cannot be read is -1, unknown.
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

// readMemory reads /proc/meminfo; what is not there is 0, unknown. MemAvailable is there since Linux 3.14. A kernel that was built
// without huge pages has no line of them: it has none.
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

// TotalMemory is the memory of this machine, in bytes; 0: unknown.
func TotalMemory(root fs.FS) int64 { return readMemory(root).Total }

// ReadLine returns the first line of a file, "" when there is none.
func ReadLine(root fs.FS, name string) string {
	text, _ := fs.ReadFile(root, name)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
