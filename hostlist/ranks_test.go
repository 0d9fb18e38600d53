package hostlist

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remshell/pin"
)

// slotsOf is the check that the command line uses.
func slotsOf(slots string) (from, to int, err error) {
	_, err = pin.ParseCPURanges(slots)
	var at *pin.SpanError
	if errors.As(err, &at) {
		return at.From, at.To, err
	}
	return 0, 0, err
}

func readRanks(text string) ([]RankLine, error) {
	return ReadRanks("F", openMap(map[string]string{"F": text}), slotsOf)
}

func showRanks(lines []RankLine) string {
	var b strings.Builder
	for _, l := range lines {
		host := l.Host.Host
		if l.Index >= 0 {
			host = fmt.Sprint("+n", l.Index)
		}
		fmt.Fprintf(&b, "%d-%d %s %q\n", l.First, l.Last, host, l.Slots)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestRankFiles(t *testing.T) {
	for _, s := range readFileCases(t, "ranks.txt") {
		lines, err := readRanks(s.file)
		got := showRanks(lines)
		if err != nil {
			got = err.Error()
		}
		if got != s.want {
			t.Errorf("%s:\n%s\ngot:\n%s\nwant:\n%s", s.title, s.file, got, s.want)
		}
	}
	dos, err := readRanks("\ufeffrank 0=a slot=0\r\nrank 1=b slot=1\r\n")
	if want := "0-0 a \"0\"\n1-1 b \"1\""; err != nil || showRanks(dos) != want {
		t.Errorf("CR LF and a byte order mark: %v, %v", showRanks(dos), err)
	}
}

func TestUnplacedRanks(t *testing.T) {
	lines, err := readRanks("rank 1-2=a slot=0\nrank 5=a slot=1\n")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{0: "", 1: "0", 3: "0", 6: "0,3-4", 9: "0,3-4,6-8"} {
		if got := UnplacedRanks(lines, n); got != want {
			t.Errorf("Missing(%d) = %q; want %q", n, got, want)
		}
	}
}

func TestRankMaps(t *testing.T) {
	for text, want := range map[string]string{
		"0,0,1,1":                   "0 0 1 1",
		"3":                         "3",
		"(0,2,2),(2,1,3)":           "0 0 1 1 2 2 2",
		"5,(0,3,1)":                 "5 0 1 2",
		"(vector,(0,2,1),(0,2,1))":  "0 1 0 1",
		"":                          "1: \"\" is neither the number of a node nor a block (start,nodes,ranks)",
		"0,":                        "3: \"\" is neither the number of a node nor a block (start,nodes,ranks)",
		"0,x":                       "3: \"x\" is neither the number of a node nor a block (start,nodes,ranks)",
		"0,(1,2)":                   "3: \"(1,2)\" is not a block (start,nodes,ranks)",
		"(0,1,1)0":                  "8: a comma is missing between the items",
		"(0,0,1)":                   "1: the block (0,0,1) has no ranks",
		"(0,1048576,1048576)":       "1: \"(0,1048576,1048576)\" is neither the number of a node nor a block (start,nodes,ranks)",
		"(0,1048575,1048575)":       "1: the file has more than 1048576 ranks",
		"(0,1,1048575),0,0":         "17: the file has more than 1048576 ranks",
		"(vector,(0,2,1),(0,2,1)":   "17: \"(0,2,1\" is not a block (start,nodes,ranks)",
		"(vector,(0,2,1)),(0,2,1))": "16: a comma is missing between the items",
	} {
		nodes, err := ParseRankMap("-rankmap", text)
		var got []string
		for _, n := range nodes {
			got = append(got, fmt.Sprint(n.Node))
		}
		shown := strings.Join(got, " ")
		var at *SyntaxError
		if errors.As(err, &at) {
			shown = fmt.Sprintf("%d: %s", at.Col, at.Reason)
		}
		if shown != want {
			t.Errorf("%q: %s; want %s", text, shown, want)
		}
	}
}

func FuzzReadRanks(f *testing.F) {
	for _, seed := range []string{
		"rank 0=node1 slot=0:0-3,1:0\n", "rank 0-3=+n0 slots=* # x\r\n", "rank 1=[fe80::1] slot=\"p1;p2\"", "rank 5-2=a slot=1", "rank = slot",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := readRanks(text)
		checkErrors(t, err)
		if err == nil && len(lines) == 0 {
			t.Fatal("neither ranks nor an error")
		}
		seen := make(map[int]bool)
		for _, l := range lines {
			if err == nil && (l.Index < 0) != (l.Host.Host != "") {
				t.Fatalf("%+v", l)
			}
			for rank := l.First; err == nil && rank <= l.Last; rank++ {
				if seen[rank] {
					t.Fatalf("rank %d twice", rank)
				}
				seen[rank] = true
			}
		}
	})
}

func FuzzParseRankMap(f *testing.F) {
	for _, seed := range []string{"0,0,1,1", "(0,2,4),(2,1,8)", "(vector,(0,2,1))", "(", "1,(2,3", "((0,1,1))"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := ParseRankMap("-rankmap", text)
		if err != nil {
			checkErrors(t, Errors{err})
		} else if len(nodes) == 0 {
			t.Fatal("neither ranks nor an error")
		}
	})
}
