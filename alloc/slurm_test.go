package alloc

import (
	"fmt"
	"testing"
)

func TestTaskCounts(t *testing.T) {
	for text, want := range map[string]string{
		"2(x3),1":       "[2 2 2 1]",
		"4":             "[4]",
		"1,2(x2),0":     "[1 2 2 0]",
		"":              `"" is not a count of tasks such as 2 or 2(x3)`,
		"2(x3":          `"2(x3" is not a count of tasks such as 2 or 2(x3)`,
		"2(x0)":         `"2(x0)" is not a count of tasks such as 2 or 2(x3)`,
		"x":             `"x" is not a count of tasks such as 2 or 2(x3)`,
		"-1":            `"-1" is not a count of tasks such as 2 or 2(x3)`,
		"1(x999999999)": `"1(x999999999)" counts more than 1048576 nodes`,
	} {
		counts, err := taskCounts(text)
		got := fmt.Sprint(counts)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("taskCounts(%q) = %s, want %s", text, got, want)
		}
	}
}

func FuzzTaskCounts(f *testing.F) {
	for _, seed := range []string{"2(x3),1", "4", "1(x999999999)", "a 4 b 4", "", ",", "(x", "1(x1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := taskCounts(text)
		if (err == nil) != (len(counts) > 0) || len(counts) > maxNodes {
			t.Fatalf("%q: %d counts, %v", text, len(counts), err)
		}
	})
}
