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
// ABI/testing/sysfs-devices-system-cpu). A node may have hundreds of CPUs, and every
// job waits for this. So a list that names the CPUs of a group is read once for the
// whole group, and what must be alike in all cores is asked of one.

// A cpuTree is a sysfs and its CPUs.
type cpuTree struct {
	fs.FS
	online []int // ascending
}

// ReadTopology reads the cores from sys, the root of a sysfs tree. The allowed CPUs
// are those that may be used. A CPU without topology files, as in some containers,
// is a core of its own.
func ReadTopology(sys fs.FS, allowed []int) (Topology, error) {
	t := cpuTree{FS: sys}
	t.online = idset.Of(append(t.cpus("devices/system/cpu/online"), allowed...)...)
	cores, err := t.cores(allowed)
	if err != nil || len(cores) == 0 {
		return Topology{}, err
	}
	memory, err := t.memory()
	if err != nil {
		return Topology{}, err
	}
	kinds := t.kinds(cores)
	packages := t.packages()
	level2, level3 := t.caches(cores, kinds)
	for i := range cores {
		first := cores[i].first()
		cores[i].Place = Place{memory.of(first), packages.of(first), level3.of(first), level2.of(first), kinds[first]}
	}
	return Topology{Cores: cores}, nil
}

// cores finds the cores, ordered by lowest CPU.
func (t cpuTree) cores(allowed []int) ([]Core, error) {
	usable, seen := make(groups), make(groups)
	usable.put(0, allowed)
	var cores []Core
	for _, cpu := range t.online {
		if seen.of(cpu) >= 0 {
			continue
		}
		siblings, err := t.siblings(cpu)
		if err != nil {
			return nil, err
		}
		var core Core
		for _, s := range siblings {
			if _, there := slices.BinarySearch(t.online, s); there && seen.of(s) < 0 {
				core.add(s, usable.of(s) >= 0)
			}
		}
		seen.put(len(cores), siblings)
		cores = append(cores, core)
	}
	slices.SortFunc(cores, func(a, b Core) int { return cmp.Compare(a.first(), b.first()) })
	return cores, nil
}

func (c *Core) add(cpu int, usable bool) {
	if usable {
		c.CPUs = append(c.CPUs, cpu)
	} else {
		c.Shut = append(c.Shut, cpu)
	}
}

// siblings lists the hardware threads of cpu's core, ascending, cpu itself included.
func (t cpuTree) siblings(cpu int) ([]int, error) {
	name := ofCPU(cpu, "topology/thread_siblings_list")
	text, there := t.text(name)
	siblings, err := ParseCPUs(text)
	if err != nil {
		return nil, fmt.Errorf("/sys/%s: %w", name, err)
	}
	if !there || !slices.Contains(siblings, cpu) {
		siblings = append(siblings, cpu)
	}
	slices.Sort(siblings)
	return siblings, nil
}

// memory finds the NUMA nodes; a kernel without NUMA has none.
func (t cpuTree) memory() (groups, error) {
	nodes := make(groups)
	for _, node := range t.cpus("devices/system/node/online") { // the same notation
		name := fmt.Sprintf("devices/system/node/node%d/cpulist", node)
		text, _ := t.text(name)
		cpus, err := ParseCPUs(text)
		if err != nil {
			return nil, fmt.Errorf("/sys/%s: %w", name, err)
		}
		nodes.put(node, cpus)
	}
	return nodes, nil
}

// packages finds the sockets. Some virtual machines and ARM firmware number them all
// -1, which is unknown.
func (t cpuTree) packages() groups {
	packages := make(groups)
	for _, cpu := range t.online {
		if _, seen := packages[cpu]; seen {
			continue
		}
		number := t.number(ofCPU(cpu, "topology/physical_package_id"))
		packages.put(number, t.cpus(ofCPU(cpu, "topology/core_siblings_list")))
		packages.put(number, []int{cpu})
	}
	return packages
}

// caches finds which CPUs share an L2, and which an L3.
func (t cpuTree) caches(cores []Core, kinds map[int]Kind) (level2, level3 groups) {
	folders := make(map[Kind][4]string)
	for _, core := range cores {
		kind := kinds[core.first()]
		if _, known := folders[kind]; !known {
			folders[kind] = t.levels(core.first())
		}
	}
	level3 = t.sharing(func(cpu int) string { return folders[kinds[cpu]][3] })
	if own := t.sharers(cores[0].first(), folders[""][2]); len(folders) == 1 && slices.Equal(own, cores[0].All()) {
		level2 = make(groups)
		for i, core := range cores { // all have one of their own, as the first has
			level2.put(i, core.All())
		}
		return level2, level3
	}
	return t.sharing(func(cpu int) string { return folders[kinds[cpu]][2] }), level3
}

// sharing groups the CPUs by a cache, given by its folder; "": the CPU has none.
func (t cpuTree) sharing(folder func(cpu int) string) groups {
	caches, next := make(groups), 0
	for _, cpu := range t.online {
		if caches.of(cpu) >= 0 {
			continue
		}
		if cpus := t.sharers(cpu, folder(cpu)); cpus != nil {
			caches.put(next, cpus)
			next++
		}
	}
	return caches
}

// sharers lists the CPUs that use a cache of a CPU; nil: unknown, or there is none.
func (t cpuTree) sharers(cpu int, folder string) []int {
	if folder == "" {
		return nil
	}
	return t.cpus(ofCPU(cpu, folder+"/shared_cpu_list"))
}

// levels tells in which folder of a CPU the data cache of each level is described.
// Cores of a kind have the same ones.
func (t cpuTree) levels(cpu int) (folders [4]string) {
	for i := range 8 {
		folder := fmt.Sprintf("cache/index%d", i)
		level := t.number(ofCPU(cpu, folder+"/level"))
		if level < 0 {
			break
		}
		if level >= 2 && level < len(folders) {
			if kind, _ := t.text(ofCPU(cpu, folder+"/type")); kind != "Instruction" {
				folders[level] = folder
			}
		}
	}
	return folders
}

// kinds tells the cores of a hybrid processor apart, by CPU; nil: all are alike. Intel's
// have a performance counter for each kind. Elsewhere the kernel tells how much work a
// CPU does in a given time. Cores of a server differ in that by some percent and are no
// kinds for that; an efficient core does less than three quarters.
func (t cpuTree) kinds(cores []Core) map[int]Kind {
	kinds := make(map[int]Kind)
	mark := func(kind Kind, cpus []int) {
		for _, cpu := range cpus {
			kinds[cpu] = kind
		}
	}
	if fast := t.cpus("devices/cpu_core/cpus"); len(fast) > 0 {
		mark(Performance, fast)
		mark(Efficiency, t.cpus("devices/cpu_atom/cpus"))
		mark(Efficiency, t.cpus("devices/cpu_lowpower/cpus"))
	} else {
		able := t.capacities(cores)
		for i, c := range able {
			mark(Performance, cores[i].All())
			if 4*c < 3*slices.Max(able) {
				mark(Efficiency, cores[i].All())
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

// capacities are those of all cores, 1024 for the best; nil: unknown. Machines with SMT
// are not asked: no kernel tells kinds apart in this way there.
func (t cpuTree) capacities(cores []Core) (able []int) {
	if slices.ContainsFunc(cores, func(c Core) bool { return len(c.CPUs)+len(c.Shut) > 1 }) {
		return nil
	}
	for _, core := range cores {
		c := t.number(ofCPU(core.first(), "cpu_capacity"))
		if c < 0 {
			return nil
		}
		able = append(able, c)
	}
	return able
}

// groups numbers the groups of CPUs: the value is the number of the group a CPU is in.
type groups map[int]int

func (g groups) put(number int, cpus []int) {
	for _, cpu := range cpus {
		g[cpu] = number
	}
}

// of is the number of the group of a CPU; -1: it is in none.
func (g groups) of(cpu int) int {
	if number, in := g[cpu]; in {
		return number
	}
	return -1
}

func ofCPU(cpu int, file string) string {
	return "devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/" + file
}

// text is the line of a file, without its end. Some kernels (5.15, seen on ARM) write a
// NUL behind a list's line.
func (t cpuTree) text(name string) (text string, there bool) {
	data, err := fs.ReadFile(t.FS, name)
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line), err == nil
}

// number is what a file says if that is a number; -1: it is none, or there is no file.
func (t cpuTree) number(name string) int {
	text, _ := t.text(name)
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// cpus is what a file says if that is a list of CPUs; nil: it is none.
func (t cpuTree) cpus(name string) []int {
	text, _ := t.text(name)
	cpus, _ := ParseCPUs(text)
	return cpus
}
