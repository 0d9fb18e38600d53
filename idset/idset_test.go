package idset

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestText(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "0": {0}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "1,3,5-7": {1, 3, 5, 6, 7}, "1500": {1500},
	} {
		got := Text(numbers)
		back, err := Parse(got, 1500)
		if got != want || err != nil || !slices.Equal(back, numbers) {
			t.Errorf("Text(%v) = %q, back %v, %v; want %q", numbers, got, back, err, want)
		}
	}
}

func TestParseKeepsTheOrder(t *testing.T) {
	list, err := Parse("7,0-2,1", 7)
	if want := []int{7, 0, 1, 2, 1}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%v, %v; want %v", list, err, want)
	}
	if _, err := Parse("0-8", 7); err == nil || err.Error() != `in the list of numbers "0-8", item "0-8" is not a valid number or range` {
		t.Errorf("a number too large: %v", err)
	}
}

// Sets agree with a map of the same numbers.
func TestSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		numbers, in := make([]int, r.IntN(8)), make(map[int]bool)
		for i := range numbers {
			numbers[i] = r.IntN(10)
			in[numbers[i]] = true
		}
		s := New(numbers...)
		if len(s) != len(in) || !s.HasAll(numbers) || !slices.IsSorted(s) {
			t.Fatalf("Of(%v) = %v", numbers, s)
		}
		for n := range 10 {
			if s.Has(n) != in[n] || s.HasAll([]int{n}) != in[n] {
				t.Fatalf("%v.Has(%d) = %v", s, n, s.Has(n))
			}
		}
	}
}

func TestJSON(t *testing.T) {
	for want, s := range map[string]Set{"null": nil, "[]": {}, "[0,1,8]": New(8, 0, 1)} {
		text, err := json.Marshal(s)
		var back Set
		if err != nil || string(text) != want || json.Unmarshal(text, &back) != nil || !slices.Equal(back, s) {
			t.Errorf("%v is %s in JSON, %v, and back %v; want %s", s, text, err, back, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0-3,8")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse(text, 1000)
		for _, n := range list {
			if err != nil || n < 0 || n > 1000 {
				t.Errorf("Parse(%q) = %v, %v", text, list, err)
			}
		}
		s := New(list...)
		if back, err := Parse(s.String(), 1000); err != nil || !slices.Equal(back, s) {
			t.Errorf("%v is %q, and that is %v, %v", s, s, back, err)
		}
	})
}
