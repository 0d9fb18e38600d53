package pin

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"remshell/idset"
)

// This file reads a topology from a sysfs tree (kernel: admin-guide/cputopology.rst,
// ABI/testing/sysfs-devices-system-cpu). Every job waits for this, and a node may have hundreds of CPUs. So
// a list that names the CPUs of a group is read once for the group. Facts that are equal for all cores are
// read for one core.

// A sysfsTree reads what a sysfs file system says about CPUs.
type sysfsTree struct {
	fs.FS
	online []int // ascending
}

// ReadTopology reads the cores from sys, the root of a sysfs tree. allowed lists the usable CPUs. A CPU without
// topology files, as in some containers, counts as a core.
func ReadTopology(sys fs.FS, allowed []int) (Topology, error) {
	t := sysfsTree{FS: sys}
	t.online = idset.New(append(t.readCPUs("devices/system/cpu/online"), allowed...)...)
	cores, err := t.readCores(allowed)
	if err != nil || len(cores) == 0 {
		return Topology{}, err
	}
	memory, err := t.readNUMANodes()
	if err != nil {
		return Topology{}, err
	}
	kinds := t.coreKinds(cores)
	packages := t.readPackages()
	level2, level3 := t.readCaches(cores, kinds)
	for i := range cores {
		first := cores[i].lowestCPU()
		cores[i].CoreLocation = CoreLocation{memory.groupOf(first), packages.groupOf(first), level3.groupOf(first), level2.groupOf(first), kinds[first]}
	}
	return Topology{Cores: cores}, nil
}

// readCores returns the cores, sorted by their lowest CPU.
func (t sysfsTree) readCores(allowed []int) ([]Core, error) {
	usable, seen := make(groupNumbers), make(groupNumbers)
	usable.setGroup(0, allowed)
	var cores []Core
	for _, cpu := range t.online {
		if seen.groupOf(cpu) >= 0 {
			continue
		}
		siblings, err := t.siblings(cpu)
		if err != nil {
			return nil, err
		}
		var core Core
		for _, s := range siblings {
			if _, found := slices.BinarySearch(t.online, s); found && seen.groupOf(s) < 0 {
				core.addCPU(s, usable.groupOf(s) >= 0)
			}
		}
		seen.setGroup(len(cores), siblings)
		cores = append(cores, core)
	}
	slices.SortFunc(cores, func(a, b Core) int { return cmp.Compare(a.lowestCPU(), b.lowestCPU()) })
	return cores, nil
}

func (c *Core) addCPU(cpu int, usable bool) {
	if usable {
		c.CPUs = append(c.CPUs, cpu)
	} else {
		c.Unusable = append(c.Unusable, cpu)
	}
}

// siblings returns the hardware threads of the core to which cpu belongs, including cpu, in ascending order.
func (t sysfsTree) siblings(cpu int) ([]int, error) {
	name := cpuFile(cpu, "topology/thread_siblings_list")
	text, found := t.readLine(name)
	siblings, err := ParseCPUs(text)
	if err != nil {
		return nil, fmt.Errorf("/sys/%s: %w", name, err)
	}
	if !found || !slices.Contains(siblings, cpu) {
		siblings = append(siblings, cpu)
	}
	slices.Sort(siblings)
	return siblings, nil
}

// readNUMANodes returns the number of the NUMA node of each CPU. It returns an empty map if the kernel has no NUMA
// support.
func (t sysfsTree) readNUMANodes() (groupNumbers, error) {
	nodes := make(groupNumbers)
	for _, node := range t.readCPUs("devices/system/node/online") { // same notation as CPU lists
		name := fmt.Sprintf("devices/system/node/node%d/cpulist", node)
		text, _ := t.readLine(name)
		cpus, err := ParseCPUs(text)
		if err != nil {
			return nil, fmt.Errorf("/sys/%s: %w", name, err)
		}
		nodes.setGroup(node, cpus)
	}
	return nodes, nil
}

// readPackages returns the number of the package of each CPU. Some virtual machines and ARM firmware give all
// packages the number -1, which means unknown.
func (t sysfsTree) readPackages() groupNumbers {
	packages := make(groupNumbers)
	for _, cpu := range t.online {
		if _, seen := packages[cpu]; seen {
			continue
		}
		number := t.readNumber(cpuFile(cpu, "topology/physical_package_id"))
		packages.setGroup(number, t.readCPUs(cpuFile(cpu, "topology/core_siblings_list")))
		packages.setGroup(number, []int{cpu})
	}
	return packages
}

// readCaches returns for each CPU the number of its L2 cache and the number of its L3 cache. CPUs with the same
// number share the cache.
func (t sysfsTree) readCaches(cores []Core, kinds map[int]CoreKind) (level2, level3 groupNumbers) {
	folders := make(map[CoreKind][4]string)
	for _, core := range cores {
		kind := kinds[core.lowestCPU()]
		if _, known := folders[kind]; !known {
			folders[kind] = t.cacheFolders(core.lowestCPU())
		}
	}
	level3 = t.groupByCache(func(cpu int) string { return folders[kinds[cpu]][3] })
	if own := t.cpusOfCache(cores[0].lowestCPU(), folders[""][2]); len(folders) == 1 && slices.Equal(own, cores[0].AllCPUs()) {
		level2 = make(groupNumbers)
		for i, core := range cores { // each core has its own L2, as the first has
			level2.setGroup(i, core.AllCPUs())
		}
		return level2, level3
	}
	return t.groupByCache(func(cpu int) string { return folders[kinds[cpu]][2] }), level3
}

// groupByCache groups the CPUs by a cache. folder returns the sysfs folder that describes this cache for a
// CPU, or "" if the CPU has no such cache.
func (t sysfsTree) groupByCache(folder func(cpu int) string) groupNumbers {
	caches, next := make(groupNumbers), 0
	for _, cpu := range t.online {
		if caches.groupOf(cpu) >= 0 {
			continue
		}
		if cpus := t.cpusOfCache(cpu, folder(cpu)); cpus != nil {
			caches.setGroup(next, cpus)
			next++
		}
	}
	return caches
}

// cpusOfCache returns the CPUs that share a cache with cpu. folder is the sysfs folder that describes the cache.
// cpusOfCache returns nil if the cache is unknown or does not exist.
func (t sysfsTree) cpusOfCache(cpu int, folder string) []int {
	if folder == "" {
		return nil
	}
	return t.readCPUs(cpuFile(cpu, folder+"/shared_cpu_list"))
}

// cacheFolders returns the sysfs folders that describe the data caches of a CPU, indexed by level. Cores of
// one kind have the same folders.
func (t sysfsTree) cacheFolders(cpu int) (folders [4]string) {
	for i := range 8 {
		folder := fmt.Sprintf("cache/index%d", i)
		level := t.readNumber(cpuFile(cpu, folder+"/level"))
		if level < 0 {
			break
		}
		if level >= 2 && level < len(folders) {
			if kind, _ := t.readLine(cpuFile(cpu, folder+"/type")); kind != "Instruction" {
				folders[level] = folder
			}
		}
	}
	return folders
}

// coreKinds returns the kind of core of each CPU of a hybrid processor. It returns nil if all cores are of one kind. On
// Intel processors, the kernel has a folder of performance counters for each kind, which also lists the CPUs of this
// kind. On other processors, a core is an efficiency core if its capacity is less than three quarters of the highest.
// Smaller differences are ignored, since cores of servers differ by a few percent.
func (t sysfsTree) coreKinds(cores []Core) map[int]CoreKind {
	kinds := make(map[int]CoreKind)
	mark := func(kind CoreKind, cpus []int) {
		for _, cpu := range cpus {
			kinds[cpu] = kind
		}
	}
	if fast := t.readCPUs("devices/cpu_core/cpus"); len(fast) > 0 {
		mark(Performance, fast)
		mark(Efficiency, t.readCPUs("devices/cpu_atom/cpus"))
		mark(Efficiency, t.readCPUs("devices/cpu_lowpower/cpus"))
	} else {
		capacities := t.coreCapacities(cores)
		for i, c := range capacities {
			mark(Performance, cores[i].AllCPUs())
			if 4*c < 3*slices.Max(capacities) {
				mark(Efficiency, cores[i].AllCPUs())
			}
		}
	}
	for _, kind := range kinds {
		if kind == Efficiency {
			return kinds
		}
	}
	return nil
}

// coreCapacities returns the capacity of each core, relative to 1024 for the best core. It returns nil if the
// capacities are unknown. It also returns nil on machines with SMT, where no kernel distinguishes kinds of cores by
// capacity.
func (t sysfsTree) coreCapacities(cores []Core) (capacities []int) {
	if slices.ContainsFunc(cores, func(c Core) bool { return len(c.CPUs)+len(c.Unusable) > 1 }) {
		return nil
	}
	for _, core := range cores {
		c := t.readNumber(cpuFile(core.lowestCPU(), "cpu_capacity"))
		if c < 0 {
			return nil
		}
		capacities = append(capacities, c)
	}
	return capacities
}

// groupNumbers maps a CPU to the number of its group, such as a NUMA node, package or shared cache.
type groupNumbers map[int]int

func (g groupNumbers) setGroup(number int, cpus []int) {
	for _, cpu := range cpus {
		g[cpu] = number
	}
}

// groupOf returns the number of the group to which a CPU belongs, or -1 if it belongs to none.
func (g groupNumbers) groupOf(cpu int) int {
	if number, in := g[cpu]; in {
		return number
	}
	return -1
}

func cpuFile(cpu int, file string) string {
	return "devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/" + file
}

// readLine returns the first line of a file, without its line end. It also removes a NUL, which some kernels (5.15,
// seen on ARM) write after the line. found is false if the file cannot be read.
func (t sysfsTree) readLine(name string) (text string, found bool) {
	data, err := fs.ReadFile(t.FS, name)
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line), err == nil
}

// readNumber returns the number in a file. It returns -1 if the file does not exist or contains no number.
func (t sysfsTree) readNumber(name string) int {
	text, _ := t.readLine(name)
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// readCPUs returns the CPUs that are listed in a file. It returns nil if the file contains no list.
func (t sysfsTree) readCPUs(name string) []int {
	text, _ := t.readLine(name)
	cpus, _ := ParseCPUs(text)
	return cpus
}
