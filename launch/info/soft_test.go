package info

import (
	"fmt"
	"strings"
	"testing"
)

// Acceptable numbers of ranks: MPI's own examples, descending, and limited in number (TRUST-11).
func TestParseSoft(t *testing.T) {
	for text, want := range map[string]string{
		"3":              "[3]",
		"1:4":            "[4 3 2 1]",
		"1:9:2":          "[9 7 5 3 1]",
		"9:1:-2":         "[9 7 5 3 1]",
		"8:1:-3,1":       "[8 5 2 1]",
		"-5:6:4":         "[3]",
		"4:1":            "[]",
		"1:2:-2":         "[]",
		"7,2,7":          "[7 2]",
		"1:2147483647":   "[10 9 8 7 6 5 4 3 2 1]",
		"1:2:0":          `"1:2:0" is not a set of numbers such as 2:8 or 4,6`,
		"a":              `"a" is not a set of numbers such as 2:8 or 4,6`,
		"1:2:3:4":        `"1:2:3:4" is not a set of numbers such as 2:8 or 4,6`,
		"99999999999999": `"99999999999999" is not a set of numbers such as 2:8 or 4,6`,
		strings.Repeat("1:2147483647,", 1<<13) + "1": "the value lists more than 65536 numbers",
	} {
		numbers, err := parseSoft(text, 10)
		got := fmt.Sprint(numbers)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40s: %s, want %s", text, got, want)
		}
	}
}
