package gpu

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// This file reads the GPUs of a node from its /sys and /proc (which-hosts.md 2.1). Each job waits for this, and most
// nodes have no GPU. So it lists the devices of the few GPU drivers, instead of reading the driver of hundreds of
// devices.

// A Detection is the result of Read: the GPUs that the process may use, and the number of other GPUs.
type Detection struct {
	GPUs     []GPU // usable GPUs, by vendor
	Withheld int   // number of further GPUs whose device file this process may not open
}

// Read finds the GPUs of a node. root is the file system of the node ("/"). mayOpen reports whether this process
// may open a device file such as "dev/nvidia0". Runtimes ignore GPUs whose device file they may not open. Access
// may be denied by a container, by a control group, or by the file's mode.
func Read(root fs.FS, mayOpen func(name string) bool) Detection {
	t := sysfsTree{root, mayOpen}
	var f Detection
	for _, of := range []func() Detection{t.readNVIDIA, t.readAMD, t.readIntel} {
		part := of()
		f.GPUs, f.Withheld = append(f.GPUs, part.GPUs...), f.Withheld+part.Withheld
	}
	return f
}

type sysfsTree struct {
	fs.FS
	mayOpen func(name string) bool
}

// A device is a PCI function to which a GPU driver is bound.
type device struct {
	dir     string // its directory in /sys
	address string
	driver  string
	class   string // "0x0302": 3D controller
	numa    int
}

// devicesOf returns the GPUs to which the given driver is bound, sorted by PCI address.
func (t sysfsTree) devicesOf(driver string) []device {
	folder := path.Join("sys/bus/pci/drivers", driver)
	entries, _ := fs.ReadDir(t.FS, folder)
	var devices []device
	for _, e := range entries {
		if strings.Count(e.Name(), ":") != 2 {
			continue // module, bind, new_id
		}
		dir := path.Join(folder, e.Name())
		d := device{dir: dir, address: e.Name(), driver: driver, class: t.firstLine(dir + "/class"), numa: -1}
		d.class = d.class[:min(len(d.class), len("0x0302"))]
		if n, err := strconv.Atoi(t.firstLine(dir + "/numa_node")); err == nil {
			d.numa = max(-1, n)
		}
		if isGPUClass(d.class) {
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b device) int { return compareAddress(a.address, b.address) })
	return devices
}

// isGPUClass reports whether a PCI class is a class of GPUs. Sound and USB functions of the same card have other
// classes.
func isGPUClass(class string) bool {
	return slices.Contains([]string{"0x0300", "0x0302", "0x0380", "0x1200"}, class)
}

// compareAddress compares two PCI addresses by the numbers in them. A domain may have more than four digits
// (10000:01:00.0).
func compareAddress(a, b string) int {
	x, _, _ := strings.Cut(a, ":")
	y, _, _ := strings.Cut(b, ":")
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// firstLine returns the first line of a file, or "" if the file cannot be read.
func (t sysfsTree) firstLine(name string) string {
	text, _ := fs.ReadFile(t.FS, name)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

func (d device) toGPU(v Vendor, index int) GPU {
	return GPU{Vendor: v, Index: index, Address: d.address, NUMA: d.numa, Driver: d.driver}
}

// readNVIDIA returns NVIDIA's GPUs. Their indices are in the order of the PCI bus. The driver's files in /proc say
// which device file belongs to which GPU.
func (t sysfsTree) readNVIDIA() (f Detection) {
	devices := t.devicesOf("nvidia")
	if len(devices) == 0 {
		return f
	}
	_, err := fs.Stat(t.FS, nvidiaFolder)
	for _, d := range devices {
		if err == nil {
			minor := fieldAfter(t.readText(nvidiaFolder+"/"+d.address+"/information"), "Device Minor:")
			if minor == "" || !t.mayOpen("dev/nvidia"+minor) {
				f.Withheld++
				continue
			}
		}
		f.GPUs = append(f.GPUs, d.toGPU(NVIDIA, len(f.GPUs)))
	}
	return f
}

const nvidiaFolder = "proc/driver/nvidia/gpus"

// UUID returns an identifier of a GPU that does not depend on the order of GPUs. The environment variable of the
// GPU's vendor accepts it. UUID returns "" if the identifier is unknown.
func UUID(root fs.FS, g GPU) string {
	t := sysfsTree{FS: root}
	switch g.Vendor {
	case NVIDIA:
		return fieldAfter(t.readText(nvidiaFolder+"/"+g.Address+"/information"), "GPU UUID:")
	case AMD:
		nodes := t.kfdNodes()
		i := slices.IndexFunc(nodes, func(n kfdNode) bool { return n.address == g.Address })
		if i >= 0 && nodes[i].uniqueID != 0 {
			return fmt.Sprintf("GPU-%016X", nodes[i].uniqueID)
		}
	}
	return ""
}

// Model returns the model of a GPU. It is the name that NVIDIA's driver reports, or otherwise the IDs of the PCI
// function in the form "pci-1002-74a1" (which-hosts.md 2.1). Model returns "" if the model is unknown.
func Model(root fs.FS, g GPU) string {
	t := sysfsTree{FS: root}
	if name := fieldAfter(t.readText(nvidiaFolder+"/"+g.Address+"/information"), "Model:"); g.Vendor == NVIDIA && name != "" {
		return name
	}
	addresses := []string{g.Address}
	if len(g.Address) > 0 { // for a partition of a card, also the card
		addresses = append(addresses, g.Address[:len(g.Address)-1]+"0")
	}
	for _, address := range addresses {
		dir := "sys/bus/pci/devices/" + address
		vendor, device := strings.TrimPrefix(t.firstLine(dir+"/vendor"), "0x"), strings.TrimPrefix(t.firstLine(dir+"/device"), "0x")
		if vendor != "" && device != "" {
			return "pci-" + vendor + "-" + device
		}
	}
	return ""
}

func (t sysfsTree) readText(name string) string {
	text, _ := fs.ReadFile(t.FS, name)
	return string(text)
}

// fieldAfter returns what follows name in the first line of text that starts with name, or "" if there is no such line.
func fieldAfter(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// minDeviceMemory is the minimum memory, in bytes, of a device that is treated as a GPU for computing. The graphics of
// a processor usually have less: the 512 MiB that the firmware reserves for them.
const minDeviceMemory = 2 << 30

// readAMD returns AMD's GPUs. As in ROCm, their indices follow the order of the kernel's KFD nodes. Nodes whose device
// file this process cannot open have no index (topology.c of libhsakmt). If there is no KFD driver, the order is that
// of bus addresses; no program can use the GPUs then.
func (t sysfsTree) readAMD() (f Detection) {
	devices := t.devicesOf("amdgpu")
	if len(devices) == 0 {
		return f
	}
	nodes := t.kfdNodes()
	if nodes == nil {
		for i, d := range devices {
			if !t.isIntegrated(d) {
				f.GPUs = append(f.GPUs, d.toGPU(AMD, i))
			}
		}
		return f
	}
	index := 0
	for _, n := range nodes {
		i := slices.IndexFunc(devices, func(d device) bool { return d.address == n.address })
		if i < 0 { // a partition of a card: only the PCI function differs
			card := n.address[:len(n.address)-1] + "0"
			i = slices.IndexFunc(devices, func(d device) bool { return d.address == card })
		}
		if n.renderNode != "" && !t.mayOpen("dev/dri/renderD"+n.renderNode) {
			f.Withheld++
			continue
		}
		if i >= 0 && !t.isIntegrated(devices[i]) {
			d := devices[i]
			d.address = n.address
			f.GPUs = append(f.GPUs, d.toGPU(AMD, index))
		}
		index++
	}
	return f
}

// isIntegrated reports whether a GPU is part of a processor and not a card.
func (t sysfsTree) isIntegrated(d device) bool {
	own, err := strconv.ParseInt(t.firstLine(d.dir+"/mem_info_vram_total"), 10, 64)
	return d.class != "0x1200" && err == nil && own < minDeviceMemory
}

// A kfdNode is a GPU as the kernel's KFD driver (AMD) describes it.
type kfdNode struct {
	address, renderNode string
	uniqueID            uint64 // 0: unknown
}

// kfdNodes returns the KFD nodes that are GPUs, in the kernel's order. It returns nil if the kernel has no KFD
// driver.
func (t sysfsTree) kfdNodes() []kfdNode {
	const folder = "sys/class/kfd/kfd/topology/nodes"
	entries, err := fs.ReadDir(t.FS, folder)
	if err != nil {
		return nil
	}
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	nodes := []kfdNode{}
	for _, n := range numbers {
		text := t.readText(fmt.Sprintf("%s/%d/properties", folder, n)) // unreadable if a control group withholds it
		number := func(name string) int {
			value, _ := strconv.Atoi(fieldAfter(text, name+" "))
			return value
		}
		if number("simd_count") == 0 {
			continue // processors
		}
		location := number("location_id")
		unique, _ := strconv.ParseUint(fieldAfter(text, "unique_id "), 10, 64)
		nodes = append(nodes, kfdNode{
			address:    fmt.Sprintf("%04x:%02x:%02x.%x", number("domain"), location>>8&0xff, location>>3&0x1f, location&7),
			renderNode: fieldAfter(text, "drm_render_minor "),
			uniqueID:   unique,
		})
	}
	return nodes
}

// readIntel returns Intel's GPUs. Their indices are in the order of the PCI bus. GPUs on bus 0, which are part of a
// processor, are counted in the indices but not returned.
func (t sysfsTree) readIntel() (f Detection) {
	devices := append(t.devicesOf("i915"), t.devicesOf("xe")...)
	slices.SortFunc(devices, func(a, b device) int { return compareAddress(a.address, b.address) })
	index, tile, several := 0, 0, false
	for _, d := range devices {
		integrated := strings.Contains(d.address, ":00:")
		if render := t.renderNode(d); render != "" && !t.mayOpen("dev/dri/"+render) {
			if !integrated {
				f.Withheld++
			}
			continue
		}
		g := d.toGPU(Intel, index)
		tiles := t.countTiles(d, integrated)
		for range tiles {
			g.Tiles = append(g.Tiles, tile)
			tile++
		}
		several = several || tiles > 1
		if !integrated {
			f.GPUs = append(f.GPUs, g)
		}
		index++
	}
	for i := range f.GPUs {
		if !several {
			f.GPUs[i].Tiles = nil
		}
	}
	return f
}

// renderNode returns the name of a device's render node, which is the device file for computing, such as
// renderD128. It returns "" if the name is unknown.
func (t sysfsTree) renderNode(d device) string {
	entries, _ := fs.ReadDir(t.FS, d.dir+"/drm")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "renderD") {
			return e.Name()
		}
	}
	return ""
}

// countTiles returns the number of tiles of a card. The driver xe has a directory for each tile. The driver i915 has a
// directory for each GT, and discrete cards have one GT per tile. integrated says that the GPU is part of a processor:
// with i915 such a GPU has one tile, whatever the number of its GTs.
func (t sysfsTree) countTiles(d device, integrated bool) int {
	folder, word := d.dir, "tile"
	if d.driver == "i915" {
		cards, _ := fs.ReadDir(t.FS, d.dir+"/drm")
		i := slices.IndexFunc(cards, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "card") })
		if integrated || i < 0 {
			return 1
		}
		folder, word = d.dir+"/drm/"+cards[i].Name()+"/gt", "gt"
	}
	entries, _ := fs.ReadDir(t.FS, folder)
	n := 0
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), word); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			n++
		}
	}
	return max(1, n)
}
