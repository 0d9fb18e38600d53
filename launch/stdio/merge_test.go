package stdio

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/pin"
)

func TestCollapse(t *testing.T) {
	tests := []struct {
		name  string
		ranks int
		steps string // "0:text" is output with / for newlines, "0!" the rank's end, "+" a pause longer than mergeDelay
		want  string
	}{
		{"all say the same", 3, "0:a/ 1:a/ 2:a/", "[0-2] a/"},
		{"one is silent", 2, "0:a/", ""},
		{"one is silent for long", 2, "0:a/ +", "[0] a/"},
		{"one is over", 3, "2! 0:a/ 1:a/", "[0-1] a/"},
		{"what one has alone", 2, "0:a/b/c/ 1:a/c/", "[0-1] a/[0] b/[0-1] c/"},
		{"twice the same", 2, "0:a/a/ 1:a/a/", "[0-1] a/[0-1] a/"},
		{"too late to join", 2, "0:a/ + 1:a/ +", "[0] a/[1] a/"},
		{"order is kept", 2, "0:a/b/ 1:b/a/ +", "[0] a/[0-1] b/[1] a/"},
		{"pieces of lines", 2, "0:he 1:hello/ 0:llo/", "[0-1] hello/"},
		{"no last newline", 2, "0:end 1:end/ 0! 1!", "[0-1] end/"},
		{"groups", 4, "0:s/0/e/ 1:s/0/e/ 2:s/1/e/ 3:s/1/e/", "[0-3] s/[2-3] 1/[0-1] 0/[0-3] e/"},
		{"a leftover child", 2, "0! 1:a/ 0:a/ +", "[1] a/[0] a/"},
	}
	for _, test := range tests {
		c := newLineMerger(numbersTo(test.ranks))
		now := time.Unix(0, 0)
		var out writeBuffer
		for step := range strings.FieldsSeq(test.steps) {
			rank, text, isText := strings.Cut(step, ":")
			switch {
			case step == "+":
				now = now.Add(mergeDelay)
			case isText:
				c.AddOutput(&out, int(rank[0]-'0'), []byte(strings.ReplaceAll(text, "/", "\n")))
			default:
				c.RankEnded(&out, int(rank[0]-'0'))
			}
			c.WriteDue(&out, now)
		}
		if got := strings.ReplaceAll(string(out.bytes()), "\n", "/"); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func numbersTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// However output of ranks is mixed, each line of each rank is written once and in order, and little
// is kept.
func TestMergerLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		const ranks = 4
		c := newLineMerger(numbersTo(ranks))
		var said [ranks][]string
		var out writeBuffer
		now := time.Unix(0, 0)
		for range 300 {
			rank := r.IntN(ranks)
			line := strings.Repeat(fmt.Sprint(r.IntN(4)), 1+r.IntN(3))
			said[rank] = append(said[rank], line)
			c.AddOutput(&out, rank, []byte(line+"\n"))
			if r.IntN(3) == 0 {
				now = now.Add(time.Duration(r.IntN(int(mergeDelay))))
				c.WriteDue(&out, now)
			}
		}
		for _, rank := range r.Perm(ranks) {
			c.RankEnded(&out, rank)
		}
		c.WriteDue(&out, now)
		var told [ranks][]string
		for line := range bytes.Lines(out.bytes()) {
			set, text, _ := strings.Cut(strings.TrimSpace(string(line)[1:]), "] ")
			who, err := pin.ParseCPUs(set)
			if err != nil {
				t.Fatal(err)
			}
			for _, rank := range who {
				told[rank] = append(told[rank], text)
			}
		}
		for rank := range ranks {
			if !slices.Equal(told[rank], said[rank]) {
				t.Fatalf("rank %d said %v, told %v", rank, said[rank], told[rank])
			}
		}
		if c.waitingBytes != 0 || c.writtenRanks != 0 {
			t.Errorf("at the end %d bytes and %d ranks are left", c.waitingBytes, c.writtenRanks)
		}
	}
}

// A rank far ahead of the others does not make memory grow.
func TestMergerIsBounded(t *testing.T) {
	c := newLineMerger(numbersTo(2))
	var out writeBuffer
	for i := range 100_000 {
		c.AddOutput(&out, 0, fmt.Appendf(nil, "%0100d\n", i))
		if c.waitingBytes > maxMergeBytes {
			t.Fatalf("%d bytes wait", c.waitingBytes)
		}
		out = writeBuffer{}
	}
}
