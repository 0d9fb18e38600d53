package pin

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
)

// A Level is a kind of thing that a node is made of, from wide to narrow.
type Level int

// The levels. A slot is not a thing but what one rank needs.
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

// levelWords lists the words for levels (cli.md section 2). A socket is a package, always;
// the L1 cache is that of the core.
var levelWords = []struct {
	word string
	Level
}{
	{"slot", BySlot}, {"node", ByNode}, {"machine", ByNode}, {"socket", ByPackage}, {"package", ByPackage}, {"numa", ByNUMA},
	{"l3cache", ByL3}, {"l2cache", ByL2}, {"l1cache", ByCore}, {"core", ByCore}, {"hwthread", ByThread}, {"board", ByNode},
}

// String is our word for a level.
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

// matchWord finds the one of some words that a text begins or is. Case does not matter.
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

// objectOfCore is the number of the thing of a level that core i lies in; -1: unknown, or there
// is none.
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

// ObjectOf is the number of the thing of a level in which a usable CPU lies; -1: none.
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

// KnowsLevel reports whether the node tells where its things of a level are.
func (t Topology) KnowsLevel(l Level) bool {
	for i := range t.Cores {
		if t.objectOfCore(i, l) >= 0 {
			return true
		}
	}
	return len(t.Cores) == 0
}

// objects lists the numbers of all things of a level, ascending. count makes so many
// neighbours one; the result is then the first of each group, and group finds the one
// a number is in.
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

// coreOfCPU finds the core of every usable CPU, by the CPU's number; -1: none.
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
