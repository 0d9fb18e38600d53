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

// This file reads the GPUs of a node from its /sys and /proc (which-hosts.md 2.1). Every job
// waits for this, and most nodes have no GPU: so the folders of the few drivers are asked
// who is bound to them, and not each of hundreds of devices for its driver.

// A Detection is what Read has found.
type Detection struct {
	GPUs     []GPU // that may be used, vendor by vendor
	Withheld int   // those beside them whose device this process may not open
}

// Read finds the GPUs below root, "/" of a node. mayOpen says of a device file, "dev/nvidia0",
// whether this process may open it: what a container or control group withholds, and what
// belongs to a group that the user is not in, is neither seen nor counted by a runtime.
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

// A device is a function of a PCI card that a driver of GPUs has.
type device struct {
	dir     string // the folder that describes it
	address string
	driver  string
	class   string // "0x0302": 3D controller
	numa    int
}

// devicesOf lists the devices of a driver, by address.
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

// isGPUClass reports whether a class is that of GPUs. The driver tells them from the sound
// and USB functions of the same card.
func isGPUClass(class string) bool {
	return slices.Contains([]string{"0x0300", "0x0302", "0x0380", "0x1200"}, class)
}

// compareAddress puts domains in the order of their numbers, which may be longer than four
// digits (10000:01:00.0).
func compareAddress(a, b string) int {
	x, _, _ := strings.Cut(a, ":")
	y, _, _ := strings.Cut(b, ":")
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// firstLine is the first line of a file, "" if there is none.
func (t sysfsTree) firstLine(name string) string {
	text, _ := fs.ReadFile(t.FS, name)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

func (d device) toGPU(v Vendor, index int) GPU {
	return GPU{Vendor: v, Index: index, Address: d.address, NUMA: d.numa, Driver: d.driver}
}

// readNVIDIA counts by the order on the bus. The driver tells which device file a GPU has.
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

// UUID is the name of a GPU that does not depend on any order, as its vendor's variable takes
// it; "" if unknown.
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

// Model names the model of a GPU: as the driver of NVIDIA does, else by the numbers of the PCI function,
// "pci-1002-74a1" (which-hosts.md 2.1); "" if unknown.
func Model(root fs.FS, g GPU) string {
	t := sysfsTree{FS: root}
	if name := fieldAfter(t.readText(nvidiaFolder+"/"+g.Address+"/information"), "Model:"); g.Vendor == NVIDIA && name != "" {
		return name
	}
	addresses := []string{g.Address}
	if len(g.Address) > 0 { // of a part of a partitioned card, the card
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

// fieldAfter is what stands behind a word at the beginning of a line.
func fieldAfter(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// minDeviceMemory is less memory, in bytes, than any GPU for computing has of its own. What firmware
// sets aside for the graphics of a processor is mostly 512 MiB.
const minDeviceMemory = 2 << 30

// readAMD counts as ROCm does: by the nodes of the kernel's KFD, in which order bus addresses may
// well descend, without those that cannot be opened (libhsakmt, topology.c). Without KFD no
// program can use them; then they are counted by the order on the bus.
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
		if i < 0 { // a part of a partitioned card: the function tells the parts apart
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

// isIntegrated reports whether a GPU is one that comes with a processor.
func (t sysfsTree) isIntegrated(d device) bool {
	own, err := strconv.ParseInt(t.firstLine(d.dir+"/mem_info_vram_total"), 10, 64)
	return d.class != "0x1200" && err == nil && own < minDeviceMemory
}

// A kfdNode is a GPU among the nodes of KFD.
type kfdNode struct {
	address, renderNode string
	uniqueID            uint64 // 0: unknown
}

// kfdNodes lists the GPUs among the nodes, in their order; nil: there is no KFD.
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
		text := t.readText(fmt.Sprintf("%s/%d/properties", folder, n)) // not to be read where a control group withholds it
		number := func(name string) int {
			value, _ := strconv.Atoi(fieldAfter(text, name+" "))
			return value
		}
		if number("simd_count") == 0 {
			continue // processors
		}
		place := number("location_id")
		unique, _ := strconv.ParseUint(fieldAfter(text, "unique_id "), 10, 64)
		nodes = append(nodes, kfdNode{
			address:    fmt.Sprintf("%04x:%02x:%02x.%x", number("domain"), place>>8&0xff, place>>3&0x1f, place&7),
			renderNode: fieldAfter(text, "drm_render_minor "),
			uniqueID:   unique,
		})
	}
	return nodes
}

// readIntel counts by the order on the bus: all of them, also those on bus 0, which come with a
// processor and are not for ranks.
func (t sysfsTree) readIntel() (f Detection) {
	devices := append(t.devicesOf("i915"), t.devicesOf("xe")...)
	slices.SortFunc(devices, func(a, b device) int { return compareAddress(a.address, b.address) })
	index, tile, several := 0, 0, false
	for _, d := range devices {
		inside := strings.Contains(d.address, ":00:")
		if render := t.renderNode(d); render != "" && !t.mayOpen("dev/dri/"+render) {
			if !inside {
				f.Withheld++
			}
			continue
		}
		g := d.toGPU(Intel, index)
		tiles := t.countTiles(d, inside)
		for range tiles {
			g.Tiles = append(g.Tiles, tile)
			tile++
		}
		several = several || tiles > 1
		if !inside {
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

// renderNode is the device file through which programs compute, renderD128; "": unknown.
func (t sysfsTree) renderNode(d device) string {
	entries, _ := fs.ReadDir(t.FS, d.dir+"/drm")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "renderD") {
			return e.Name()
		}
	}
	return ""
}

// countTiles counts the tiles of a card: driver xe has a folder for each, i915 one for each GT,
// which is the same on cards that are not inside of a processor.
func (t sysfsTree) countTiles(d device, inside bool) int {
	folder, word := d.dir, "tile"
	if d.driver == "i915" {
		cards, _ := fs.ReadDir(t.FS, d.dir+"/drm")
		i := slices.IndexFunc(cards, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "card") })
		if inside || i < 0 {
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
