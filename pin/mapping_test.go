package pin

import (
	"slices"
	"testing"
)

// The words of seq, rankfile, ppr and pe-list may be abbreviated, too. A word without the value that it needs is an error.
func TestAnAbbreviatedPolicyIsNotSlot(t *testing.T) {
	for text, want := range map[string]string{
		"se":          "Seq:true",
		"SE:file=Who": "Seq:true File:Who",
		"rank:file=r": "File:r",
		"pp:2:socket": "Level:package PerObject:2",
		"rank":        `"rank": write rankfile:file=FILE`,
		"pp":          `ppr: "" is not a number of ranks; write ppr:N:OBJECT`,
		"pe":          `"pe": write pe-list=LIST`,
		"pe-list":     `"pe-list": write pe-list=LIST`,
		"pe-list:3":   `"pe-list:3": write pe-list=LIST`,
	} {
		var m Mapping
		err := m.UnmarshalText([]byte(text))
		got := policyText(m)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("--map-by %s: %s; want %s", text, got, want)
		}
	}
}

// Each word of a policy is found in full, and each kind of object is a policy of that level.
func TestEveryPolicyIsFoundByItsWord(t *testing.T) {
	for _, p := range mappingPolicies {
		if found, _, err := findPolicy(p.word); err != nil || found.word != p.word {
			t.Errorf("%s means %q, %v", p.word, found.word, err)
		}
	}
	for i, word := range objectWords() {
		if p := mappingPolicies[i]; p.word != word || p.level != parseLevel(word) || p.value != "" || p.read != nil {
			t.Errorf("policy %d is %s of level %s, want the object %s", i, p.word, p.level, word)
		}
	}
}

// In each round of a cyclic policy, each node has one turn.
func TestEachNodeHasOneTurnInARound(t *testing.T) {
	cyclic := 0
	for _, p := range mappingPolicies {
		if p.turn == nil {
			continue
		}
		cyclic++
		for nodes := 1; nodes < 6; nodes++ {
			for round := range 4 {
				var had []int
				for turn := range nodes {
					had = append(had, p.turn(round, turn, nodes))
				}
				slices.Sort(had)
				for i, node := range had {
					if i != node {
						t.Fatalf("%s: the nodes of round %d are %v", p.word, round, had)
					}
				}
			}
		}
	}
	if cyclic < 2 {
		t.Errorf("%d policies are cyclic", cyclic)
	}
}
