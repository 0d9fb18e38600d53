package format

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// Topology draws one picture for each kind of node. A picture shows the names and number of the nodes of that kind,
// and the CPUs and GPUs that ranks must not use:
//
//	n[1-2]  2 nodes  amd64  2 packages  16 cores of 2 threads  62 GiB
//	  package 0  NUMA 0  cores 0-7   CPUs 0-7,16-23   L3 0  L2 for each core  [##/##/##/##/../##/##/##]
//	  package 1  NUMA 1  cores 8-15  CPUs 8-15,24-31  L3 1  L2 for each core  [##/##/##/##/##/##/##/##]
//	  not allowed: CPUs 4,20
//	  GPUs 0-1  nvidia  NUMA 0  0000:07:00.0 0000:0f:00.0
//	  PROCSPEED 2000 MHz (nominal)  MEMORY 65536 MB  NETSPEED 200000 Mb/s  CPUMODEL genuineintel-6-143
//	  NETWORK eth1g ethernet ib ib-hdr infiniband rdma
//
// The brackets contain one character for each hardware thread: "#" if ranks may use the thread, and "." otherwise. "/"
// separates cores that have several threads, and "|" separates cores with different L3 caches.
func Topology(nodes []job.Node) string {
	var b strings.Builder
	var unseen []string
	for _, kind := range groupAlike(nodes) {
		if len(kind[0].Topology.Cores) == 0 {
			for _, n := range kind {
				unseen = append(unseen, n.Name)
			}
			continue
		}
		drawNodes(&b, kind)
	}
	if unseen != nil {
		fmt.Fprintf(&b, "%s  not probed\n", hostlist.Fold(unseen))
	}
	return b.String()
}

// groupAlike groups nodes that look the same in a picture. Groups are in the order of their first node.
func groupAlike(nodes []job.Node) [][]job.Node {
	var all [][]job.Node
	for _, n := range nodes {
		i := slices.IndexFunc(all, func(kind []job.Node) bool { return looksAlike(kind[0], n) })
		if i < 0 {
			all = append(all, []job.Node{n})
			continue
		}
		all[i] = append(all[i], n)
	}
	return all
}

func looksAlike(a, b job.Node) bool {
	return attributesAlike(a, b) && a.Arch == b.Arch && slices.EqualFunc(a.Topology.Cores, b.Topology.Cores, func(a, b pin.Core) bool {
		return a.CoreLocation == b.CoreLocation && slices.Equal(a.CPUs, b.CPUs) && slices.Equal(a.Unusable, b.Unusable)
	}) && a.WithheldGPUs == b.WithheldGPUs && slices.EqualFunc(a.GPUs, b.GPUs, func(a, b gpu.GPU) bool {
		return a.Vendor == b.Vendor && a.Index == b.Index && a.NUMA == b.NUMA && a.Address == b.Address
	})
}

func drawNodes(b *strings.Builder, kind []job.Node) {
	var names []string
	for _, n := range kind {
		names = append(names, n.Name)
	}
	cores := kind[0].Topology.Cores
	fields := []string{hostlist.Fold(names)}
	if len(kind) > 1 {
		fields = append(fields, text.Count(len(kind), "node"))
	}
	packages := sortedKnown(distinctValues(cores, func(c pin.Core) int { return c.Package }))
	for _, field := range []string{kind[0].Arch, countIfKnown(len(packages), "package"), formatSize(cores), formatMemory(kind)} {
		if field != "" {
			fields = append(fields, field)
		}
	}
	fmt.Fprintln(b, EscapeSentence(strings.Join(fields, "  ")))
	b.WriteString(drawAreas(cores))
	var unusable []int
	for _, c := range cores {
		unusable = append(unusable, c.Unusable...)
	}
	if len(unusable) > 0 {
		fmt.Fprintf(b, "  not allowed: %s\n", labelNumbers("CPU", sortedKnown(unusable)))
	}
	b.WriteString(formatGPUs(kind[0].Probe))
	b.WriteString(formatAttributes(kind))
}

// formatGPUs lists the GPUs of a node. GPUs of one vendor and NUMA node share a line.
func formatGPUs(p job.Probe) string {
	lines := textTable{indent: "  "}
	seen := make([]bool, len(p.GPUs))
	for i, g := range p.GPUs {
		var numbers []int
		var addresses []string
		for k, other := range p.GPUs {
			if !seen[k] && k >= i && other.Vendor == g.Vendor && other.NUMA == g.NUMA {
				seen[k] = true
				numbers, addresses = append(numbers, other.Index), append(addresses, other.Address)
			}
		}
		if numbers != nil {
			lines.addRow(labelNumbers("GPU", numbers), string(g.Vendor), labelNumbers("NUMA", sortedKnown([]int{g.NUMA})), strings.Join(addresses, " "))
		}
	}
	found := lines.String()
	if p.WithheldGPUs > 0 {
		found += fmt.Sprintf("  not allowed: %s\n", text.Count(p.WithheldGPUs, "GPU"))
	}
	return found
}

func countIfKnown(n int, noun string) string {
	if n == 0 {
		return ""
	}
	return text.Count(n, noun)
}

func distinctValues(cores []pin.Core, valueOf func(pin.Core) int) []int {
	numbers := make([]int, len(cores))
	for i, c := range cores {
		numbers[i] = valueOf(c)
	}
	return numbers
}

// formatSize returns a string with the number of cores and the number of their threads.
func formatSize(cores []pin.Core) string {
	threads := distinctValues(cores, func(c pin.Core) int { return len(c.CPUs) + len(c.Unusable) })
	total := 0
	for _, n := range threads {
		total += n
	}
	switch {
	case slices.Max(threads) == 1:
		return text.Count(len(cores), "core")
	case slices.Min(threads) == slices.Max(threads):
		return fmt.Sprintf("%s of %d threads", text.Count(len(cores), "core"), threads[0])
	}
	return fmt.Sprintf("%s, %d threads", text.Count(len(cores), "core"), total)
}

// formatMemory returns the memory size of the nodes, or the range of their sizes. Sizes differ because firmware
// reserves different parts of equal memory.
func formatMemory(kind []job.Node) string {
	least, most := kind[0].Memory.Total, kind[0].Memory.Total
	for _, n := range kind {
		least, most = min(least, n.Memory.Total), max(most, n.Memory.Total)
	}
	gib := func(bytes int64) int64 { return (bytes + 1<<29) >> 30 }
	switch {
	case least == 0:
		return ""
	case most < 1<<33:
		return fmt.Sprintf("%.1f GiB", float64(least)/(1<<30))
	case gib(least) == gib(most):
		return fmt.Sprintf("%d GiB", gib(most))
	}
	return fmt.Sprintf("%d-%d GiB", gib(least), gib(most))
}

// A coreArea is a group of cores that have the same package, NUMA node and kind. Their caches may differ.
type coreArea struct {
	pin.CoreLocation
	numbers []int // numbers of the cores
	cores   []pin.Core
}

// drawAreas returns one line for each coreArea of the cores.
func drawAreas(cores []pin.Core) string {
	lines := textTable{indent: "  "}
	before := pin.UnknownLocation
	for _, a := range splitAreas(cores) {
		pkg := ""
		if a.Package != before.Package {
			pkg = labelNumbers("package", sortedKnown([]int{a.Package}))
		}
		before = a.CoreLocation
		var cpus []int
		for _, c := range a.cores {
			cpus = append(cpus, c.AllCPUs()...)
		}
		lines.addRow(pkg, labelNumbers("NUMA", sortedKnown([]int{a.NUMA})), string(a.Kind), labelNumbers("core", a.numbers),
			labelNumbers("CPU", sortedKnown(cpus)), a.formatCaches("L3", func(p pin.CoreLocation) int { return p.L3 }),
			a.formatCaches("L2", func(p pin.CoreLocation) int { return p.L2 }), a.drawThreads())
	}
	return lines.String()
}

// splitAreas groups the cores by area. Areas are sorted by package.
func splitAreas(cores []pin.Core) []coreArea {
	var all []coreArea
	for number, c := range cores {
		location := pin.CoreLocation{NUMA: c.NUMA, Package: c.Package, Kind: c.Kind}
		i := slices.IndexFunc(all, func(a coreArea) bool { return a.CoreLocation == location })
		if i < 0 {
			i = len(all)
			all = append(all, coreArea{CoreLocation: location})
		}
		all[i].numbers = append(all[i].numbers, number)
		all[i].cores = append(all[i].cores, c)
	}
	slices.SortStableFunc(all, func(a, b coreArea) int { return a.Package - b.Package })
	return all
}

// formatCaches says how the area's cores share the caches of a level, "L2" or "L3". The result "L3 0" means that all
// its cores share L3 cache 0.
func (a coreArea) formatCaches(level string, cacheOf func(pin.CoreLocation) int) string {
	users := make(map[int][]int) // cores by cache
	for i, c := range a.cores {
		users[cacheOf(c.CoreLocation)] = append(users[cacheOf(c.CoreLocation)], a.numbers[i])
	}
	without := users[-1] != nil
	delete(users, -1)
	numbers := slices.Sorted(maps.Keys(users))
	if len(numbers) == 0 {
		return ""
	}
	var lists []string
	first, even := users[numbers[0]], !without
	for _, cache := range numbers {
		sharing := users[cache]
		lists = append(lists, foldNumbers(sharing))
		even = even && len(sharing) == len(first) && sharing[len(sharing)-1]-sharing[0] == len(sharing)-1
	}
	switch {
	case even && len(numbers) == 1 && len(first) > 1:
		return fmt.Sprint(level, " ", numbers[0])
	case even && len(first) == 1:
		return level + " for each core"
	case even:
		return fmt.Sprintf("%s %s, each shared by %d cores", level, foldNumbers(numbers), len(first))
	}
	return fmt.Sprintf("%s of cores %s", level, strings.Join(lists, " | "))
}

// maxStripWidth is the maximum width, in characters, of the picture of an area's threads.
const maxStripWidth = 64

// drawThreads returns a picture of the hardware threads of the area. It returns "" if the picture would be wider
// than maxStripWidth.
func (a coreArea) drawThreads() string {
	var b strings.Builder
	for i, c := range a.cores {
		threads := c.AllCPUs()
		switch {
		case i > 0 && c.L3 != a.cores[i-1].L3:
			b.WriteByte('|')
		case i > 0 && (len(threads) > 1 || len(a.cores[i-1].AllCPUs()) > 1):
			b.WriteByte('/')
		}
		for _, cpu := range threads {
			mark := byte('#')
			if slices.Contains(c.Unusable, cpu) {
				mark = '.'
			}
			b.WriteByte(mark)
		}
	}
	if b.Len() > maxStripWidth {
		return ""
	}
	return "[" + b.String() + "]"
}
