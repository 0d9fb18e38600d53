package plan

import (
	"bufio"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// letters turns "aabb" into the node of every rank.
func letters(layout string) []int {
	var node []int
	for _, c := range layout {
		node = append(node, int(c))
	}
	return node
}

// TestMappingVectors reads the table of pmi-wire.md 3.2.
func TestMappingVectors(t *testing.T) {
	f, err := os.Open("../testdata/pmi/mapping.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		layout, want, ok := strings.Cut(line, " ")
		if !ok {
			t.Fatalf("mapping.txt: no value: %q", line)
		}
		seen++
		if got := Mapping(letters(layout)); got != want {
			t.Errorf("Mapping(%s) = %s, want %s", layout, got, want)
		}
	}
	if seen == 0 {
		t.Fatal("mapping.txt: no vectors")
	}
}

func TestMappingWithoutRanks(t *testing.T) {
	if got := Mapping(nil); got != "" {
		t.Errorf("Mapping(nil) = %q, want nothing", got)
	}
}

// TestMappingOfOnePeriod checks a periodic mapping that is too long as a whole: one period is sent, since
// clients start again at the first block (pmi-wire.md 7, case 29).
func TestMappingOfOnePeriod(t *testing.T) {
	base := letters("abacadaeafagahai")
	var node []int
	for range 40 {
		node = append(node, base...)
	}
	node = append(node, base[:5]...) // an incomplete last period
	got := Mapping(node)
	if want := Mapping(base); got != want {
		t.Errorf("%d periods give %s, want one: %s", 40, got, want)
	}
	if back := decode(t, got, len(node)); !slices.Equal(back, renumber(node)) {
		t.Errorf("%s decodes to %v", got, back)
	}
}

// TestMappingThatDoesNotFit checks that a long mapping without a period is left out (case 30).
func TestMappingThatDoesNotFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	node := make([]int, 1000)
	for r := range node {
		node[r] = rng.IntN(50)
	}
	if got := Mapping(node); got != "" {
		t.Errorf("a random layout of 1000 ranks on 50 nodes gives %d bytes, want none", len(got))
	}
}

// TestMappingDecodes checks that a client decodes the original layout from the mapping, and that no
// mapping is too long for a client.
func TestMappingDecodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	given := 0
	for i := range 5000 {
		node := randomLayout(rng)
		m := Mapping(node)
		if len(m) > mappingLimit {
			t.Fatalf("%d bytes: %s", len(m), m)
		}
		if m == "" {
			continue
		}
		given++
		if got, want := decode(t, m, len(node)), renumber(node); !slices.Equal(got, want) {
			t.Fatalf("layout %d %v: %s decodes to %v", i, node, m, got)
		}
	}
	if given < 4000 {
		t.Errorf("only %d of 5000 layouts have a mapping", given)
	}
}

// randomLayout returns a layout that mixes blocks, round robin and random order, partly repeated.
func randomLayout(rng *rand.Rand) []int {
	var node []int
	for range 1 + rng.IntN(6) {
		first, nodes, per := rng.IntN(20), 1+rng.IntN(8), 1+rng.IntN(5)
		for n := range nodes {
			for range per {
				node = append(node, -(first+n)*7)
			}
		}
	}
	once := node
	for range rng.IntN(4) * rng.IntN(20) {
		node = append(node, once...)
	}
	return node[:1+rng.IntN(len(node))]
}

// decode is the client's side of pmi-wire.md 3.1: it goes through the blocks in order, and after the last
// one continues at the first block that starts at node 0.
func decode(t *testing.T, mapping string, ranks int) []int {
	t.Helper()
	inner, ok := strings.CutPrefix(mapping, "(vector,(")
	inner, ok2 := strings.CutSuffix(inner, "))")
	if !ok || !ok2 {
		t.Fatalf("not a mapping: %q", mapping)
	}
	var bs []mappingBlock
	for part := range strings.SplitSeq(inner, "),(") {
		var v [3]int
		for i, s := range strings.Split(part, ",") {
			n, err := strconv.Atoi(s)
			if err != nil || i > 2 || n < 0 || i > 0 && n == 0 {
				t.Fatalf("not a block: %q in %q", part, mapping)
			}
			v[i] = n
		}
		bs = append(bs, mappingBlock{v[0], v[1], v[2]})
	}
	again := slices.IndexFunc(bs, func(b mappingBlock) bool { return b.start == 0 })
	var node []int
	for i := 0; len(node) < ranks; i++ {
		if i == len(bs) {
			i = again
		}
		for n := range bs[i].nodes {
			for range bs[i].ranksPerNode {
				node = append(node, bs[i].start+n)
			}
		}
	}
	return node[:ranks]
}
