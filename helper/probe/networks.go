//go:build linux

package probe

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

/*
The networks of a node, for NETWORK and NETSPEED of which-hosts.md 2.1, are read from:

	sys/class/net/NAME/              type, operstate, carrier, speed; uevent and device/uevent
	sys/devices/virtual/net/NAME     exists if it is not hardware
	sys/class/net/NAME/lower_OTHER   exists if it uses OTHER
	sys/class/infiniband/DEVICE/ports/N/   state, link_layer, rate

Only networks that are up count.
*/

// These are types of network links, from linux/if_arp.h.
const (
	etherType      = "1"
	infinibandType = "32"
	loopbackType   = "772"
)

// networks returns the labels of all networks that are up, in ascending order. fastest is the speed, in Mb/s, of the
// fastest network, or 0 if no speed is known.
func networks(root fs.FS) (names []string, fastest int) {
	found := make(labelSet)
	for _, name := range listDir(root, "sys/class/net") {
		fastest = max(fastest, linkLabels(root, name, found))
	}
	for _, device := range listDir(root, "sys/class/infiniband") {
		for _, port := range listDir(root, "sys/class/infiniband/"+device+"/ports") {
			fastest = max(fastest, rdmaPort(root, device, port, found))
		}
	}
	return found.sorted(), fastest
}

// linkLabels adds the labels of a network interface to found, and returns its speed in Mb/s. The result is 0
// if the speed is unknown or the interface is not a usable network.
func linkLabels(root fs.FS, name string, found labelSet) (speed int) {
	file := func(of string) string { return strings.TrimSpace(ReadLine(root, "sys/class/net/"+name+"/"+of)) }
	kind := file("type")
	if kind == loopbackType || !isUp(file) || !isPhysical(root, name, 0) {
		return 0
	}
	if n, ok := parseDecimal(file("speed"), 0); ok && n <= maxMbps { // -1 or a read error: unknown
		speed = n
	}
	switch kind {
	case etherType:
		found.addLabels("ethernet")
		switch {
		case speed >= 1000:
			found.addLabels(fmt.Sprintf("eth%dg", speed/1000))
		case speed >= 100:
			found.addLabels("eth100")
		}
	case infinibandType:
		found.addLabels("ipoib")
	}
	driver := driverOf(root, name)
	if driver == "myri10ge" || driver == "mx" {
		found.addLabels("myrinet")
	}
	if numbered, is := strings.CutPrefix(name, "hsn"); is && isNumber(numbered) || strings.HasPrefix(driver, "cxi") {
		found.addLabels("slingshot")
	}
	return speed
}

// maxMbps is a speed that no link reaches. A larger value in a file is treated as wrong.
const maxMbps = 100_000_000

func isUp(file func(string) string) bool {
	state := file("operstate")
	return state == "up" || state == "unknown" && file("carrier") == "1"
}

// isPhysical reports whether a network interface is hardware, or is a bond or VLAN on top of such an
// interface. depth is the depth of the recursion, which is limited.
func isPhysical(root fs.FS, name string, depth int) bool {
	const deepest = 4
	if _, err := fs.Stat(root, "sys/devices/virtual/net/"+name); err != nil {
		_, err := fs.Stat(root, "sys/class/net/"+name)
		return err == nil
	}
	kind := ueventValue(root, "sys/class/net/"+name+"/uevent", "DEVTYPE")
	if depth == deepest || kind != "bond" && kind != "vlan" {
		return false
	}
	return slices.ContainsFunc(listDir(root, "sys/class/net/"+name), func(entry string) bool {
		other, is := strings.CutPrefix(entry, "lower_")
		return is && isPhysical(root, other, depth+1)
	})
}

// driverOf returns the name of a network interface's driver, or "" if unknown.
func driverOf(root fs.FS, name string) string {
	return ueventValue(root, "sys/class/net/"+name+"/device/uevent", "DRIVER")
}

// rdmaPort adds the labels of an RDMA port to found, and returns the port's speed in Mb/s. It returns 0 if
// the speed is unknown or the port is not up.
func rdmaPort(root fs.FS, device, port string, found labelSet) int {
	file := func(of string) string {
		return strings.TrimSpace(ReadLine(root, "sys/class/infiniband/"+device+"/ports/"+port+"/"+of))
	}
	if !strings.HasSuffix(file("state"), "ACTIVE") {
		return 0
	}
	rate := file("rate") // "100 Gb/sec (4X EDR)"
	switch layer := file("link_layer"); {
	case strings.HasPrefix(device, "hfi1"):
		found.addLabels("omnipath", "rdma")
	case strings.HasPrefix(device, "efa"):
		found.addLabels("efa", "rdma")
	case layer == "InfiniBand":
		found.addLabels("infiniband", "ib", "rdma")
		if generation := infinibandGeneration(rate); generation != "" {
			found.addLabels("ib-" + generation)
		}
	case layer == "Ethernet":
		found.addLabels("roce", "rdma")
	}
	number, _, is := strings.Cut(rate, " Gb/sec")
	if mbps, ok := parseDecimal(number, 3); is && ok && mbps <= maxMbps {
		return mbps
	}
	return 0
}

// infinibandGeneration returns the InfiniBand generation that is part of a port's rate, such as "EDR" for
// "100 Gb/sec (4X EDR)". It returns "" if there is none.
func infinibandGeneration(rate string) string {
	_, inside, _ := strings.Cut(rate, "(")
	inside, _, _ = strings.Cut(inside, ")")
	words := strings.Fields(inside)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// ueventValue returns the value of key in a file with lines NAME=VALUE. It returns "" if the file has no such line.
func ueventValue(root fs.FS, name, key string) string {
	text, _ := fs.ReadFile(root, name)
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, key+"="); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// listDir returns the names in a directory, or nil if it cannot be read.
func listDir(root fs.FS, name string) (names []string) {
	entries, _ := fs.ReadDir(root, name)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
