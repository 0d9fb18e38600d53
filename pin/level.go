package pin

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
)

// A Level is a kind of hardware object in a node. Smaller values stand for larger objects.
type Level int

// These are the levels of hardware objects. BySlot is an exception: a slot is room for one rank and not a
// hardware object.
const (
	BySlot Level = iota
	ByNode
	ByPackage
	ByNUMA
	ByL3
	ByL2
	ByCore
	ByThread
)

// levelWords lists the names of the levels (cli.md 2). "socket" is the same as "package", and the L1 cache is the
// same as the core.
var levelWords = []struct {
	word string
	Level
}{
	{"slot", BySlot}, {"node", ByNode}, {"machine", ByNode}, {"socket", ByPackage}, {"package", ByPackage}, {"numa", ByNUMA},
	{"l3cache", ByL3}, {"l2cache", ByL2}, {"l1cache", ByCore}, {"core", ByCore}, {"hwthread", ByThread}, {"board", ByNode},
}

// objectWords returns the words for kinds of hardware objects. It leaves out "board", which is allowed only
// in a binding.
func objectWords() (words []string) {
	for _, known := range levelWords[:len(levelWords)-1] {
		words = append(words, known.word)
	}
	return words
}

// String returns the name by which messages call a level.
func (l Level) String() string {
	for _, known := range slices.Backward(levelWords[:len(levelWords)-1]) {
		if known.Level == l && known.word != "l1cache" && known.word != "machine" {
			return known.word
		}
	}
	return "slot"
}

func parseLevel(word string) Level {
	for _, known := range levelWords {
		if known.word == word {
			return known.Level
		}
	}
	return BySlot
}

// matchWord returns the word in words that equals text or is abbreviated by text, ignoring case. It returns an error if
// no word or several words match.
func matchWord(text string, words []string) (string, error) {
	lower := strings.ToLower(text)
	var found []string
	for _, w := range words {
		if w == lower {
			return w, nil
		}
		if lower != "" && strings.HasPrefix(w, lower) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
	}
	return "", fmt.Errorf("%q may be %s", text, strings.Join(found, " or "))
}

// objectOfCore returns the number of the object at level l that contains core i. It returns -1 if the object
// is unknown or does not exist.
func (t Topology) objectOfCore(i int, l Level) int {
	switch c := &t.Cores[i]; l {
	case ByPackage:
		return c.Package
	case ByNUMA:
		return c.NUMA
	case ByL3:
		return c.L3
	case ByL2:
		return c.L2
	case ByCore, ByThread:
		return i
	}
	return 0
}

// ObjectOf returns the number of the object at level l that contains the given CPU. It returns -1 if the
// object is unknown or the CPU is not usable.
func (t Topology) ObjectOf(cpu int, l Level) int {
	for i := range t.Cores {
		if slices.Contains(t.Cores[i].CPUs, cpu) {
			if l == ByThread {
				return cpu
			}
			return t.objectOfCore(i, l)
		}
	}
	return -1
}

// KnowsLevel reports whether the objects at a level are known on this node.
func (t Topology) KnowsLevel(l Level) bool {
	for i := range t.Cores {
		if t.objectOfCore(i, l) >= 0 {
			return true
		}
	}
	return len(t.Cores) == 0
}

// objects divides the objects at a level into groups of count consecutive objects, in ascending order of their
// numbers. If count is 0, each object is a group. firsts contains the number of the first object of each group.
// group contains, by object, the index of its group.
func (t Topology) objects(l Level, count int) (firsts []int, group map[int]int) {
	var numbers []int
	for i := range t.Cores {
		if n := t.objectOfCore(i, l); n >= 0 {
			numbers = append(numbers, n)
		}
	}
	numbers = idset.New(numbers...)
	group = make(map[int]int, len(numbers))
	for k, n := range numbers {
		if k%max(1, count) == 0 {
			firsts = append(firsts, n)
		}
		group[n] = len(firsts) - 1
	}
	return firsts, group
}

// coreOfCPU returns a slice that maps the number of each usable CPU to the index of its core. For other
// numbers the value is -1.
func (t Topology) coreOfCPU() []int {
	var of []int
	for i := range t.Cores {
		for _, cpu := range t.Cores[i].CPUs {
			for len(of) <= cpu {
				of = append(of, -1)
			}
			of[cpu] = i
		}
	}
	return of
}
